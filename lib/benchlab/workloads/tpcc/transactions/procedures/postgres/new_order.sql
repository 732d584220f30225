-- New-Order (TPC-C 5.11, clause 2.4.2). The lines come as arrays, round by round: no two lines of a round
-- are of the same row of stock, and within a round they stand in the order in which rows are locked.
-- p_ends: roll an order with an unused item back here; else the client does.
CREATE OR REPLACE PROCEDURE tpcc_new_order(
    p_w_id integer, p_d_id integer, p_c_id integer,
    p_rounds integer[], p_numbers integer[], p_i_ids integer[], p_supply_w_ids integer[],
    p_quantities integer[], p_ends boolean, INOUT answer text
)
LANGUAGE plpgsql AS $$
DECLARE
    entered timestamp := date_trunc('second', timezone('utc', now()));
    order_id integer;
    district_tax numeric;
    warehouse_tax numeric;
    discount numeric;
    last_name text;
    credit text;
    lines_of_round jsonb;
    amount_of_round numeric;
    lines jsonb := '{}';
    total numeric := 0;
    lines_taken integer := 0;
    count_of_round integer;
BEGIN
    UPDATE district SET d_next_o_id = d_next_o_id + 1
    WHERE d_w_id = p_w_id AND d_id = p_d_id
    RETURNING d_next_o_id - 1, d_tax INTO STRICT order_id, district_tax;

    SELECT c_discount, c_last, c_credit, w_tax
    INTO STRICT discount, last_name, credit, warehouse_tax
    FROM customer, warehouse
    WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = p_c_id AND w_id = p_w_id;

    INSERT INTO orders
        (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)
    VALUES (order_id, p_d_id, p_w_id, p_c_id, entered, NULL, cardinality(p_i_ids),
            (p_w_id = ALL (p_supply_w_ids))::integer);

    INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (order_id, p_d_id, p_w_id);

    FOR current_round IN 1 .. p_rounds[cardinality(p_rounds)] LOOP
        WITH taken AS (
            UPDATE stock
            SET s_quantity = s_quantity - line.quantity
                    + CASE WHEN s_quantity >= line.quantity + 10 THEN 0 ELSE 91 END,
                s_ytd = s_ytd + line.quantity,
                s_order_cnt = s_order_cnt + 1,
                s_remote_cnt = s_remote_cnt + (line.supply_w_id <> p_w_id)::integer
            FROM unnest(p_rounds, p_numbers, p_i_ids, p_supply_w_ids, p_quantities)
                    AS line (round, number, i_id, supply_w_id, quantity)
                JOIN item ON item.i_id = line.i_id
            WHERE line.round = current_round
                AND s_w_id = line.supply_w_id AND s_i_id = line.i_id
            RETURNING
                line.number, line.i_id, line.supply_w_id, line.quantity,
                line.quantity * i_price AS amount, i_name, i_price, s_quantity,
                CASE WHEN i_data LIKE '%ORIGINAL%' AND s_data LIKE '%ORIGINAL%'
                    THEN 'B' ELSE 'G' END AS brand_generic,
                CASE p_d_id
                    WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03
                    WHEN 4 THEN s_dist_04 WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06
                    WHEN 7 THEN s_dist_07 WHEN 8 THEN s_dist_08 WHEN 9 THEN s_dist_09
                    WHEN 10 THEN s_dist_10
                END AS dist_info
        ), added AS (
            INSERT INTO order_line
                (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d,
                 ol_quantity, ol_amount, ol_dist_info)
            SELECT order_id, p_d_id, p_w_id, number, i_id, supply_w_id, NULL,
                quantity, taken.amount, dist_info
            FROM taken
        )
        SELECT count(*), sum(taken.amount), jsonb_object_agg(number, jsonb_build_object(
                'i_name', i_name, 's_quantity', s_quantity, 'brand_generic', brand_generic,
                'i_price', i_price, 'ol_amount', taken.amount))
        INTO count_of_round, amount_of_round, lines_of_round
        FROM taken;
        IF count_of_round > 0 THEN
            lines_taken := lines_taken + count_of_round;
            total := total + amount_of_round;
            lines := lines || lines_of_round;
        END IF;
    END LOOP;

    IF lines_taken < cardinality(p_i_ids) THEN  -- an unused item (clause 2.4.2.3)
        answer := json_build_object(
            'o_id', order_id, 'c_last', last_name, 'c_credit', credit, 'rolled_back', true);
        IF p_ends THEN
            ROLLBACK;
        END IF;
        RETURN;
    END IF;

    answer := json_build_object(
        'o_id', order_id, 'c_last', last_name, 'c_credit', credit, 'o_entry_d', entered,
        'c_discount', discount, 'w_tax', warehouse_tax, 'd_tax', district_tax,
        'total_amount',
        round(total * (1 - discount) * (1 + warehouse_tax + district_tax), 2),
        'lines', lines);
END
$$
