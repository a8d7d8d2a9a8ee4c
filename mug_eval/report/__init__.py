"""Finished runs to look at: pages for a browser, figures for papers."""
