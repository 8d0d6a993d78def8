"""The HTML report: tables in DuckDB -> answers of bounded size -> figures and tables -> one page.

`questions` asks, `answers` has what comes back, `figures` draws with Plotly, `page` fills Jinja2 templates.
The figures use Plotly because its charts are SVG, so that they print and take the page's colours; because it
runs under a content security policy without `unsafe-eval`; and because Jupyter shows the same figures as
objects. Its 4.8 MB of JavaScript are most of a report. Static SVG would be smaller, but could not zoom or
show values.

Needs the extra `report`.
"""
