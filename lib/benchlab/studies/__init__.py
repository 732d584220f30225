"""What only one study shows, a module each, found by the study's name."""
