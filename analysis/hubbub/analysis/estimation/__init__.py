"""The statistics, as functions of arrays. Nothing here knows a result's rows, a file or a page."""
