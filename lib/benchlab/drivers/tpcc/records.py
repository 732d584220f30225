"""What the terminals keep of each transaction: one row, whatever became of it.

Times are Unix microseconds. The response time is ``answered_us - due_us``: it counts from when the send
was due, so that a late emulator cannot hide a slow answer, to the last byte.
"""

import polars as pl

#: What became of a transaction: answered; rolled back on purpose, as 1 % of the New-Orders; turned away
#: since too many waited (HTTP 503); answered with an error; never answered, its terminal is lost.
STATUSES = ("ok", "rolled_back", "refused", "error", "lost")

RECORDS = {
    "terminal": pl.Int32,  # from 0; ten a warehouse
    "w_id": pl.Int32,  # the terminal's own
    "type": pl.String,
    "due_us": pl.Int64,  # end of the keying time
    "sent_us": pl.Int64,  # later by what the emulator itself was late
    "answered_us": pl.Int64,  # null: never
    "menu_us": pl.Int32,  # response time of the menu before it
    "keying_us": pl.Int32,  # from the input screen to due
    "think_us": pl.Int32,  # drawn, for the pause after it
    "status": pl.String,
    "retries": pl.Int16,  # of the transaction within the application server
    "lines": pl.Int8,  # of a New-Order
    "remote_lines": pl.Int8,  # those of them from another warehouse
    "remote": pl.Boolean,  # of a Payment: the customer's warehouse is another one
    "by_name": pl.Boolean,  # of a Payment or Order-Status: by last name
    "o_id": pl.Int32,  # of a New-Order
}
