-- Order-Status (TPC-C 5.11, clause 2.6.2).
CREATE OR REPLACE PROCEDURE tpcc_order_status(
    p_w_id integer, p_d_id integer, p_c_id integer, p_c_last text, INOUT answer text
)
LANGUAGE plpgsql AS $$
DECLARE
    named integer[];
    c record;
    o record;
BEGIN
    IF p_c_id IS NULL THEN
        named := ARRAY(
            SELECT c_id FROM customer
            WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_last = p_c_last
            ORDER BY c_first, c_id);
        p_c_id := named[(cardinality(named) + 1) / 2];
    END IF;

    SELECT c_id, c_first, c_middle, c_last, c_balance INTO STRICT c FROM customer
    WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = p_c_id;

    SELECT o_id, o_entry_d, o_carrier_id INTO STRICT o FROM orders
    WHERE o_w_id = p_w_id AND o_d_id = p_d_id AND o_c_id = p_c_id
    ORDER BY o_id DESC LIMIT 1;

    answer := json_build_object(
        'c_id', c.c_id, 'c_first', c.c_first, 'c_middle', c.c_middle, 'c_last', c.c_last,
        'c_balance', c.c_balance,
        'o_id', o.o_id, 'o_entry_d', o.o_entry_d, 'o_carrier_id', o.o_carrier_id,
        'lines', (
            SELECT json_object_agg(ol_number, json_build_object(
                'ol_i_id', ol_i_id, 'ol_supply_w_id', ol_supply_w_id,
                'ol_quantity', ol_quantity, 'ol_amount', ol_amount,
                'ol_delivery_d', ol_delivery_d))
            FROM order_line
            WHERE ol_w_id = p_w_id AND ol_d_id = p_d_id AND ol_o_id = o.o_id));
END
$$
