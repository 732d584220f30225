-- Delivery (TPC-C 5.11, clause 2.7.4), each step for all districts at once.
CREATE OR REPLACE PROCEDURE tpcc_delivery(
    p_w_id integer, p_o_carrier_id integer, INOUT answer text
)
LANGUAGE plpgsql AS $$
DECLARE
    districts integer[];
    orders_ integer[];
BEGIN
    -- locked, so that another delivery waits and then finds the next ones
    SELECT array_agg(district.number ORDER BY district.number),
        array_agg(oldest.no_o_id ORDER BY district.number)
    INTO districts, orders_
    FROM generate_series(1, 10) AS district (number),
        LATERAL (
            SELECT no_o_id FROM new_order
            WHERE no_w_id = p_w_id AND no_d_id = district.number
            ORDER BY no_o_id LIMIT 1 FOR UPDATE
        ) AS oldest;

    DELETE FROM new_order USING unnest(districts, orders_) AS delivered (d_id, o_id)
    WHERE no_w_id = p_w_id AND no_d_id = delivered.d_id AND no_o_id = delivered.o_id;

    UPDATE order_line SET ol_delivery_d = date_trunc('second', timezone('utc', now()))
    FROM unnest(districts, orders_) AS delivered (d_id, o_id)
    WHERE ol_w_id = p_w_id AND ol_d_id = delivered.d_id AND ol_o_id = delivered.o_id;

    WITH delivered AS (
        UPDATE orders SET o_carrier_id = p_o_carrier_id
        FROM unnest(districts, orders_) AS delivered (d_id, o_id)
        WHERE o_w_id = p_w_id AND o_d_id = delivered.d_id AND orders.o_id = delivered.o_id
        RETURNING o_d_id, orders.o_id, o_c_id
    ), owed AS (
        SELECT o_d_id, o_c_id, sum(ol_amount) AS amount
        FROM delivered
            JOIN order_line ON ol_w_id = p_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
        GROUP BY o_d_id, o_c_id
    )
    UPDATE customer
    SET c_balance = c_balance + owed.amount, c_delivery_cnt = c_delivery_cnt + 1
    FROM owed
    WHERE c_w_id = p_w_id AND c_d_id = owed.o_d_id AND c_id = owed.o_c_id;

    answer := json_build_object('orders', coalesce(
        (SELECT json_object_agg(d_id, o_id)
         FROM unnest(districts, orders_) AS delivered (d_id, o_id)), '{}'));
END
$$
