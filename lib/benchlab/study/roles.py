"""The roles of nodes that benchlab itself knows; an inventory may give others."""

#: Clients connect to its node.
PRIMARY = "db.primary"

#: Its nodes follow the primary.
STANDBY = "db.standby"

#: The server between load and engine, if a driver has one, runs on the first of its nodes.
APP = "app"

#: The load generator runs on its nodes.
LOAD = "load"


def is_database(role: str) -> bool:
    """Whether an engine may run on the nodes of a role."""
    return role.startswith("db.")
