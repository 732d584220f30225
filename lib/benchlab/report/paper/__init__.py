"""The paper: a Markdown manuscript with computed values and live charts, as one HTML file and one PDF.

::

    built = build(Path("paper/paper.md"), context, figures, tables, out=Path("paper/build"))
    built.html, built.pdf

In the manuscript, `{{ value }}` is a value of the context, `{{ figure("id", "caption") }}` places
a chart, `{{ table("id", "caption") }}` a data frame, and `{{ ref("fig-id") }}` or
`{{ ref("tab-id") }}` is a link to one of them.
"""

from benchlab.report.paper.render import Built, build

__all__ = ["Built", "build"]
