"""The application server between terminals and database.

Terminals never reach the database. They send their input screens as JSON and get their output screens
as JSON; people use HTML screens for the same.

``app``       paths of the API, the screens and the metrics
``api``       the JSON API
``screens``   the HTML screens, with their templates in ``templates/``
``forms``     parsing and checking of forms
``execute``   admission, execution, repetition and counting of transactions
``delivery``  deferred deliveries and their result file
``pool``      connections to the database, and their recovery after it was lost
``null``      no database: made-up answers, to measure everything else alone
``metrics``   counters, as Prometheus' text
``serve``     the socket, the event loop, the end

``python -m benchlab.drivers.tpcc.was --help`` describes how it is started.
"""

#: Message on standard error, followed by the reason, when the database no longer answers.
LOST = "the database is lost: "

#: Message on standard error at the end, followed by ``<n> of <n> transactions``, if deferred deliveries
#: were not done.
NOT_DONE = "deliveries acknowledged and not done: "
