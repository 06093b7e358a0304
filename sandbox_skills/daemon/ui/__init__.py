"""The dashboard at /ui: pages that the server renders, over the same services as the API."""
