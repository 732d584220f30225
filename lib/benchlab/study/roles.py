"""The roles of nodes that benchlab itself knows; an inventory may give others."""

#: Its node is where clients connect to.
PRIMARY = "db.primary"

#: Its nodes follow the primary.
STANDBY = "db.standby"

#: A server between load and engine runs on the first of its nodes, if a driver has one.
APP = "app"

#: The load generator runs on its nodes.
LOAD = "load"


def is_database(role: str) -> bool:
    """Whether an engine may run on the nodes of a role."""
    return role.startswith("db.")
