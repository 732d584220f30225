"""The terminals' records: one row for each transaction, whatever its outcome.

Times are Unix microseconds. The response time is ``answered_us - due_us``. It counts from when the
send was due to the last byte, so that a late emulator cannot hide a slow answer.
"""

import polars as pl

#: Outcomes of a transaction: answered; rolled back on purpose, as 1 % of the New-Orders are; refused
#: because too many waited (HTTP 503); answered with an error; never answered, its terminal is lost.
STATUSES = ("ok", "rolled_back", "refused", "error", "lost")

RECORDS = {
    "terminal": pl.Int32,  # from 0; ten for each warehouse
    "w_id": pl.Int32,  # the terminal's home
    "type": pl.String,
    "due_us": pl.Int64,  # end of the keying time
    "sent_us": pl.Int64,  # later than due_us by the emulator's own delay
    "answered_us": pl.Int64,  # null: never answered
    "menu_us": pl.Int32,  # response time of the menu before it
    "menu_late_us": pl.Int32,  # how late the menu's request was sent
    "keying_us": pl.Int32,  # from the input screen to due_us
    "think_us": pl.Int32,  # drawn for the pause after the transaction
    "status": pl.String,
    "retries": pl.Int16,  # repetitions of the transaction in the application server
    "lines": pl.Int8,  # New-Order: order lines
    "remote_lines": pl.Int8,  # New-Order: order lines from another warehouse
    "remote": pl.Boolean,  # Payment: whether the customer's warehouse is another one
    "by_name": pl.Boolean,  # Payment, Order-Status: whether the customer is named by last name
    "o_id": pl.Int32,  # New-Order: number of the order
}
