"""`argosy status`: how the service is."""

from argosy.cli.remote import JsonOption, ServerOption, connect, counts_text, print_json, say, since
from argosy.cli.words import counted


def command(server: ServerOption = "", as_json: JsonOption = False) -> None:
    """Say how the service is: its process, jobs, nodes and chips."""
    with connect(server) as client:
        found = client.status()
    if as_json:
        print_json(found)
        return
    say("service", f"{client.address.url}   version {found.version}   pid {found.pid}   up {since(found.started_us)}")
    say("fleet", f"{found.fleet}   {counted(found.chips, 'chip')}, {found.chips_held:,} in use")
    say("nodes", counts_text(dict(sorted(found.nodes.items()))))
    say("jobs", counts_text(dict(sorted(found.jobs.items()))))
    say("log", f"term {found.term}, record {found.seq:,}, {counted(found.waiting, 'event')} waiting")
    if found.trouble:
        say("trouble", f"nothing is decided or acknowledged: {found.trouble}")
