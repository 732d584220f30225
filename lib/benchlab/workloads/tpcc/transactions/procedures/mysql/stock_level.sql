-- Stock-Level (TPC-C 5.11, clause 2.8.2). p_ends: begin and end the transaction here; else the client does.
CREATE PROCEDURE tpcc_stock_level(p_w_id INT, p_d_id INT, p_threshold INT, p_ends BOOLEAN)
BEGIN
    DECLARE next_order, low INT;
    DECLARE EXIT HANDLER FOR NOT FOUND
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'there is no such district';

    IF p_ends THEN
        START TRANSACTION;
    END IF;

    SELECT d_next_o_id INTO next_order FROM district WHERE d_w_id = p_w_id AND d_id = p_d_id;

    SELECT /* hint */ COUNT(DISTINCT s_i_id) INTO low FROM order_line, stock
    WHERE ol_w_id = p_w_id AND ol_d_id = p_d_id
        AND ol_o_id >= next_order - 20 AND ol_o_id < next_order
        AND s_w_id = p_w_id AND s_i_id = ol_i_id AND s_quantity < p_threshold;

    IF p_ends THEN
        COMMIT;
    END IF;
    SELECT JSON_OBJECT('low_stock', low);
END
