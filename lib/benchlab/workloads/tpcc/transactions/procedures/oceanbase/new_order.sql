-- New-Order (TPC-C 5.11, clause 2.4.2) of p_lines lines. p_rounds is JSON: a list of rounds, each a list of lines
-- [number, item, supplying warehouse, quantity]; no two lines of a round are of the same row of stock, and
-- within a round they stand in the order in which rows are locked.
-- Line by line: with the statements that MySQL has, which join JSON_TABLE, one takes twice as long here.
-- p_ends: begin and end the transaction here; else the client does.
CREATE PROCEDURE tpcc_new_order(
    p_w_id INT, p_d_id INT, p_c_id INT, p_lines INT, p_all_local INT, p_rounds JSON,
    p_ends BOOLEAN
)
BEGIN
    DECLARE entered DATETIME DEFAULT UTC_TIMESTAMP();
    DECLARE order_id, lines_taken, current_round INT DEFAULT 0;
    DECLARE district_tax, warehouse_tax, discount DECIMAL(4, 4);
    DECLARE total DECIMAL(12, 2) DEFAULT 0;
    DECLARE last_name VARCHAR(16);
    DECLARE credit CHAR(2);
    DECLARE place, number, item_id, supplier, quantity, items, left_in_stock INT;
    DECLARE price DECIMAL(5, 2);
    DECLARE name_of_item, dist_info VARCHAR(24);
    DECLARE data_of_item, data_of_stock VARCHAR(50);
    DECLARE priced_lines VARCHAR(4000);
    DECLARE of_round, reply JSON;
    DECLARE EXIT HANDLER FOR NOT FOUND
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'there is no such district or customer';

    IF p_ends THEN
        START TRANSACTION;
    END IF;

    SELECT d_tax, d_next_o_id INTO district_tax, order_id FROM district
    WHERE d_w_id = p_w_id AND d_id = p_d_id FOR UPDATE;
    UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = p_w_id AND d_id = p_d_id;

    SELECT c_discount, c_last, c_credit, w_tax INTO discount, last_name, credit, warehouse_tax
    FROM customer, warehouse
    WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = p_c_id AND w_id = p_w_id;

    INSERT INTO orders
        (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)
    VALUES (order_id, p_d_id, p_w_id, p_c_id, entered, NULL, p_lines, p_all_local);
    INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (order_id, p_d_id, p_w_id);

    WHILE current_round < JSON_LENGTH(p_rounds) DO
        SET of_round = JSON_EXTRACT(p_rounds, CONCAT('$[', current_round, ']')), place = 0;
        WHILE place < JSON_LENGTH(of_round) DO
            SET number = JSON_EXTRACT(of_round, CONCAT('$[', place, '][0]')),
                item_id = JSON_EXTRACT(of_round, CONCAT('$[', place, '][1]')),
                supplier = JSON_EXTRACT(of_round, CONCAT('$[', place, '][2]')),
                quantity = JSON_EXTRACT(of_round, CONCAT('$[', place, '][3]'));

            -- no row for an unused item (clause 2.4.2.3), which is not the end yet
            SELECT COUNT(*), MAX(i_price), MAX(i_name), MAX(i_data)
            INTO items, price, name_of_item, data_of_item FROM item WHERE i_id = item_id;

            IF items = 1 THEN
                UPDATE stock
                SET s_quantity = s_quantity - quantity
                        + CASE WHEN s_quantity >= quantity + 10 THEN 0 ELSE 91 END,
                    s_ytd = s_ytd + quantity,
                    s_order_cnt = s_order_cnt + 1,
                    s_remote_cnt = s_remote_cnt + (supplier <> p_w_id)
                WHERE s_w_id = supplier AND s_i_id = item_id;

                SELECT s_quantity, s_data,
                    ELT(p_d_id, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05,
                        s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10)
                INTO left_in_stock, data_of_stock, dist_info
                FROM stock WHERE s_w_id = supplier AND s_i_id = item_id;

                INSERT INTO order_line
                    (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id,
                     ol_delivery_d, ol_quantity, ol_amount, ol_dist_info)
                VALUES (order_id, p_d_id, p_w_id, number, item_id, supplier,
                        NULL, quantity, quantity * price, dist_info);

                SET lines_taken = lines_taken + 1,
                    total = total + quantity * price,
                    priced_lines = CONCAT_WS(',', priced_lines, CONCAT('"', number, '":',
                        JSON_OBJECT(
                            'i_name', name_of_item, 's_quantity', left_in_stock,
                            'brand_generic', CASE WHEN data_of_item LIKE '%ORIGINAL%'
                                AND data_of_stock LIKE '%ORIGINAL%' THEN 'B' ELSE 'G' END,
                            'i_price', price, 'ol_amount', quantity * price)));
            END IF;
            SET place = place + 1;
        END WHILE;
        SET current_round = current_round + 1;
    END WHILE;

    IF lines_taken < p_lines THEN  -- an unused item (clause 2.4.2.3)
        IF p_ends THEN
            ROLLBACK;
        END IF;
        SET reply = JSON_OBJECT(
            'o_id', order_id, 'c_last', last_name, 'c_credit', credit, 'rolled_back', 1);
    ELSE
        IF p_ends THEN
            COMMIT;
        END IF;
        SET reply = JSON_OBJECT(
            'o_id', order_id, 'c_last', last_name, 'c_credit', credit, 'o_entry_d', entered,
            'c_discount', discount, 'w_tax', warehouse_tax, 'd_tax', district_tax,
            'total_amount',
            ROUND(total * (1 - discount) * (1 + warehouse_tax + district_tax), 2),
            'lines', JSON_EXTRACT(CONCAT('{', priced_lines, '}'), '$'));
    END IF;
    SELECT reply;
END
