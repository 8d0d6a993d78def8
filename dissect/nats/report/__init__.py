"""The HTML report: rows -> aggregates of bounded size -> figures and tables -> one page.

`aggregate` reads each row once, `figures` draws with Plotly, `page` fills Jinja2 templates. Plotly is the
library because its charts are SVG, so that they print and take the page's colours; because it runs under a
content security policy without `unsafe-eval`; and because the same figures are objects in Jupyter. Its
4.8 MB of JavaScript are most of a report. Static SVG would be smaller, but lacks zooming and reading values.

Needs the extra `report`.
"""
