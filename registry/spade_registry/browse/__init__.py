"""Browse a registry in a web browser: Datasette with titles, facets, canned queries and a page for each environment."""
