"""`argosy token`: who may come in, and `argosy token audit`: who did what."""

from typing import Annotated, Literal

import typer

from argosy.cli.checking import checked
from argosy.cli.remote import JsonOption, ServerOption, connect, moment, print_json, print_table
from argosy.contracts.errors import BadInputError
from argosy.server.models import TokenWish

Role = Literal["admin", "user", "join"]
app = typer.Typer(no_args_is_help=True, help="Make, list and revoke tokens; see who did what.")


@app.command("create")
def create(
    owner: Annotated[str, typer.Argument(metavar="OWNER", help="The user's name, or what a join token is for.")],
    role: Annotated[str, typer.Option(help="admin, user, or join (lets machines in).")] = "user",
    server: ServerOption = "",
    as_json: JsonOption = False,
) -> None:
    """Make a token; it is shown now and never again."""
    roles: dict[str, Role] = {"admin": "admin", "user": "user", "join": "join"}
    if role not in roles:
        raise BadInputError(f"--role {role}: write one of {', '.join(roles)}")
    with checked():
        wish = TokenWish(owner=owner, role=roles[role])
    with connect(server) as client:
        found = client.create_token(wish)
    if as_json:
        print_json(found)
    else:
        typer.echo(found.secret)


@app.command("list")
def show(server: ServerOption = "", as_json: JsonOption = False) -> None:
    """List tokens, without their secrets."""
    with connect(server) as client:
        found = client.tokens()
    if as_json:
        print_json(found)
        return
    columns = {
        "token": [token.id for token in found],
        "owner": [token.owner for token in found],
        "role": [token.role for token in found],
        "made": [moment(token.created_us) for token in found],
        "revoked": [moment(token.revoked_us) for token in found],
    }
    print_table(columns, ("token", "owner", "role"))


@app.command("revoke")
def revoke(
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="Its id, as `argosy token list` shows it.")],
    server: ServerOption = "",
    as_json: JsonOption = False,
) -> None:
    """Take a token back; it opens nothing from now on."""
    with connect(server) as client:
        found = client.revoke_token(token)
    if as_json:
        print_json(found)
    else:
        typer.echo(f"{found.id} of {found.owner} is revoked")


@app.command("audit")
def audit(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 50,
    server: ServerOption = "",
    as_json: JsonOption = False,
) -> None:
    """Show who did what, newest first."""
    with connect(server) as client:
        found = client.audit(limit=limit)
    if as_json:
        print_json(found)
        return
    columns = {
        "when": [moment(row.at_us) for row in found],
        "who": [row.who for row in found],
        "what": [row.deed for row in found],
        "about": [row.about for row in found],
        "why": [row.text for row in found],
    }
    print_table(columns, ("when", "who", "what", "about", "why"))
