-- New-Order (TPC-C 5.11, clause 2.4.2) of p_lines lines. p_rounds is JSON: a list of rounds, each a list of lines
-- [number, item, supplying warehouse, quantity]; no two lines of a round are of the same row of stock, and
-- within a round they stand in the order in which rows are locked.
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
    DECLARE lines_of_round, reply JSON;
    DECLARE priced_lines JSON DEFAULT JSON_OBJECT();
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
        SET lines_of_round = JSON_EXTRACT(p_rounds, CONCAT('$[', current_round, ']'));

        UPDATE JSON_TABLE(lines_of_round, '$[*]' COLUMNS (
                i_id INT PATH '$[1]', supply_w_id INT PATH '$[2]', quantity INT PATH '$[3]'
            )) AS line
            JOIN item ON item.i_id = line.i_id
            JOIN stock ON s_w_id = line.supply_w_id AND s_i_id = line.i_id
        SET s_quantity = s_quantity - line.quantity
                + CASE WHEN s_quantity >= line.quantity + 10 THEN 0 ELSE 91 END,
            s_ytd = s_ytd + line.quantity,
            s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + (line.supply_w_id <> p_w_id);

        INSERT INTO order_line
            (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d,
             ol_quantity, ol_amount, ol_dist_info)
        SELECT order_id, p_d_id, p_w_id, line.number, line.i_id, line.supply_w_id, NULL,
            line.quantity, line.quantity * i_price,
            ELT(p_d_id, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05,
                s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10)
        FROM JSON_TABLE(lines_of_round, '$[*]' COLUMNS (
                number INT PATH '$[0]', i_id INT PATH '$[1]', supply_w_id INT PATH '$[2]',
                quantity INT PATH '$[3]'
            )) AS line
            JOIN item ON item.i_id = line.i_id
            JOIN stock ON s_w_id = line.supply_w_id AND s_i_id = line.i_id;

        SELECT lines_taken + COUNT(*), total + COALESCE(SUM(line.quantity * i_price), 0),
            JSON_MERGE_PATCH(priced_lines, COALESCE(JSON_OBJECTAGG(line.number, JSON_OBJECT(
                'i_name', i_name, 's_quantity', s_quantity,
                'brand_generic', CASE WHEN i_data LIKE '%ORIGINAL%' AND s_data LIKE '%ORIGINAL%'
                    THEN 'B' ELSE 'G' END,
                'i_price', i_price, 'ol_amount', line.quantity * i_price)), JSON_OBJECT()))
        INTO lines_taken, total, priced_lines
        FROM JSON_TABLE(lines_of_round, '$[*]' COLUMNS (
                number INT PATH '$[0]', i_id INT PATH '$[1]', supply_w_id INT PATH '$[2]',
                quantity INT PATH '$[3]'
            )) AS line
            JOIN item ON item.i_id = line.i_id
            JOIN stock ON s_w_id = line.supply_w_id AND s_i_id = line.i_id;

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
            -- in MariaDB a variable is a string, and what JSON_EXTRACT returns is JSON
            'lines', JSON_EXTRACT(priced_lines, '$'));
    END IF;
    SELECT reply;
END
