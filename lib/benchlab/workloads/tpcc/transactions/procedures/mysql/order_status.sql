-- Order-Status (TPC-C 5.11, clause 2.6.2). p_ends: begin and end the transaction here; else the client does.
CREATE PROCEDURE tpcc_order_status(
    p_w_id INT, p_d_id INT, p_c_id INT, p_c_last VARCHAR(16), p_ends BOOLEAN
)
BEGIN
    DECLARE before_it, order_id, carrier INT;
    DECLARE entered DATETIME;
    DECLARE first_name, last_name VARCHAR(16);
    DECLARE middle CHAR(2);
    DECLARE balance DECIMAL(12, 2);
    DECLARE reply JSON;
    DECLARE EXIT HANDLER FOR NOT FOUND
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'there is no such customer, or no order of it';

    IF p_ends THEN
        START TRANSACTION;
    END IF;

    IF p_c_id IS NULL THEN
        SELECT (COUNT(*) - 1) DIV 2 INTO before_it FROM customer
        WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_last = p_c_last;
        SELECT c_id INTO p_c_id FROM customer
        WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_last = p_c_last
        ORDER BY c_first, c_id LIMIT 1 OFFSET before_it;
    END IF;

    SELECT c_first, c_middle, c_last, c_balance INTO first_name, middle, last_name, balance
    FROM customer WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = p_c_id;

    SELECT o_id, o_entry_d, o_carrier_id INTO order_id, entered, carrier FROM orders
    WHERE o_w_id = p_w_id AND o_d_id = p_d_id AND o_c_id = p_c_id
    ORDER BY o_id DESC LIMIT 1;

    SELECT JSON_OBJECT(
        'c_id', p_c_id, 'c_first', first_name, 'c_middle', middle, 'c_last', last_name,
        'c_balance', balance, 'o_id', order_id, 'o_entry_d', entered, 'o_carrier_id', carrier,
        'lines', JSON_OBJECTAGG(ol_number, JSON_OBJECT(
            'ol_i_id', ol_i_id, 'ol_supply_w_id', ol_supply_w_id, 'ol_quantity', ol_quantity,
            'ol_amount', ol_amount, 'ol_delivery_d', ol_delivery_d)))
    INTO reply
    FROM order_line WHERE ol_w_id = p_w_id AND ol_d_id = p_d_id AND ol_o_id = order_id;

    IF p_ends THEN
        COMMIT;
    END IF;
    SELECT reply;
END
