"""The routes of the HTTP API: each parses, authorises and calls; what is done is done below."""
