"""The application server between terminals and database.

Terminals never reach the database. They send what their input screens hold as JSON and get what their
output screens show; people get the same as HTML.

``app``       paths → the API, the screens, the metrics
``api``       the JSON API
``screens``   the HTML screens, ``templates/`` beside it
``forms``     what a form may hold
``execute``   admission, repetition, counting: whatever happens to a transaction
``delivery``  deferred deliveries and their result file
``pool``      connections to the database, and their return after it was lost
``null``      no database: made-up answers, to measure everything else alone
``metrics``   counters, as Prometheus' text
``serve``     sockets and processes

``python -m benchlab.drivers.tpcc.was --help`` says how it is started.
"""

#: What it says on standard error, followed by the reason, when the database answers no more.
LOST = "the database is lost: "
