"""Content that only one study shows: a module for each study, found by the study's name."""
