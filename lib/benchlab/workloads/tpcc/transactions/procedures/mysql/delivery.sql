-- Delivery (TPC-C 5.11, clause 2.7.4). p_ends: begin and end the transaction here; else the client does.
CREATE PROCEDURE tpcc_delivery(p_w_id INT, p_o_carrier_id INT, p_ends BOOLEAN)
BEGIN
    DECLARE now_ DATETIME DEFAULT UTC_TIMESTAMP();
    DECLARE district_id INT DEFAULT 1;
    DECLARE order_id, ordered_by INT;
    DECLARE amount DECIMAL(12, 2);
    DECLARE delivered VARCHAR(1000);
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET order_id = NULL;

    IF p_ends THEN
        START TRANSACTION;
    END IF;

    WHILE district_id <= 10 DO
        -- locked, so that another delivery waits and then finds the next one
        SELECT no_o_id INTO order_id FROM new_order
        WHERE no_w_id = p_w_id AND no_d_id = district_id
        ORDER BY no_o_id LIMIT 1 FOR UPDATE;

        IF order_id IS NOT NULL THEN
            DELETE FROM new_order
            WHERE no_w_id = p_w_id AND no_d_id = district_id AND no_o_id = order_id;

            UPDATE orders SET o_carrier_id = p_o_carrier_id
            WHERE o_w_id = p_w_id AND o_d_id = district_id AND o_id = order_id;

            UPDATE order_line SET ol_delivery_d = now_
            WHERE ol_w_id = p_w_id AND ol_d_id = district_id AND ol_o_id = order_id;

            SELECT o_c_id, SUM(ol_amount) INTO ordered_by, amount FROM orders, order_line
            WHERE o_w_id = p_w_id AND o_d_id = district_id AND o_id = order_id
                AND ol_w_id = p_w_id AND ol_d_id = district_id AND ol_o_id = order_id
            GROUP BY o_c_id;

            UPDATE customer
            SET c_balance = c_balance + amount, c_delivery_cnt = c_delivery_cnt + 1
            WHERE c_w_id = p_w_id AND c_d_id = district_id AND c_id = ordered_by;

            SET delivered = CONCAT_WS(',', delivered, CONCAT('"', district_id, '":', order_id));
        END IF;
        SET district_id = district_id + 1;
    END WHILE;

    IF p_ends THEN
        COMMIT;
    END IF;
    SELECT CONCAT('{"orders":{', COALESCE(delivered, ''), '}}');
END
