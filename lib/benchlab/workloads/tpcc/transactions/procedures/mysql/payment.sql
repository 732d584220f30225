-- Payment (TPC-C 5.11, clause 2.5.2). p_ends: begin and end the transaction here; else the client does.
CREATE PROCEDURE tpcc_payment(
    p_w_id INT, p_d_id INT, p_c_w_id INT, p_c_d_id INT, p_h_amount DECIMAL(6, 2),
    p_c_id INT, p_c_last VARCHAR(16), p_ends BOOLEAN
)
BEGIN
    DECLARE paid DATETIME DEFAULT UTC_TIMESTAMP();
    DECLARE before_it INT;
    DECLARE reply JSON;
    DECLARE EXIT HANDLER FOR NOT FOUND SIGNAL SQLSTATE '45000'
        SET MESSAGE_TEXT = 'there is no such warehouse, district or customer';

    IF p_ends THEN
        START TRANSACTION;
    END IF;

    UPDATE district SET d_ytd = d_ytd + p_h_amount WHERE d_w_id = p_w_id AND d_id = p_d_id;

    IF p_c_id IS NULL THEN
        SELECT (COUNT(*) - 1) DIV 2 INTO before_it FROM customer
        WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_last = p_c_last;
        SELECT c_id INTO p_c_id FROM customer
        WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_last = p_c_last
        ORDER BY c_first, c_id LIMIT 1 OFFSET before_it;
    END IF;

    UPDATE customer
    SET c_balance = c_balance - p_h_amount,
        c_ytd_payment = c_ytd_payment + p_h_amount,
        c_payment_cnt = c_payment_cnt + 1,
        c_data = CASE WHEN c_credit = 'BC' THEN LEFT(
            CONCAT_WS(' ', p_c_id, p_c_d_id, p_c_w_id, p_d_id, p_w_id, p_h_amount, c_data), 500)
            ELSE c_data END
    WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = p_c_id;

    UPDATE warehouse SET w_ytd = w_ytd + p_h_amount WHERE w_id = p_w_id;

    INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    SELECT p_c_id, p_c_d_id, p_c_w_id, p_d_id, p_w_id, paid, p_h_amount,
        CONCAT(w_name, '    ', d_name)
    FROM warehouse, district
    WHERE w_id = p_w_id AND d_w_id = p_w_id AND d_id = p_d_id;

    SELECT JSON_OBJECT(
        'warehouse', JSON_OBJECT('street_1', w_street_1, 'street_2', w_street_2,
            'city', w_city, 'state', w_state, 'zip', w_zip),
        'district', JSON_OBJECT('street_1', d_street_1, 'street_2', d_street_2,
            'city', d_city, 'state', d_state, 'zip', d_zip),
        'customer', JSON_OBJECT('street_1', c_street_1, 'street_2', c_street_2,
            'city', c_city, 'state', c_state, 'zip', c_zip),
        'c_id', c_id, 'c_first', c_first, 'c_middle', c_middle, 'c_last', c_last,
        'c_phone', c_phone, 'c_since', c_since, 'c_credit', c_credit,
        'c_credit_lim', c_credit_lim, 'c_discount', c_discount, 'c_balance', c_balance,
        'h_date', paid,
        'c_data', CASE WHEN c_credit = 'BC' THEN LEFT(c_data, 200) END)
    INTO reply
    FROM warehouse, district, customer
    WHERE w_id = p_w_id AND d_w_id = p_w_id AND d_id = p_d_id
        AND c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = p_c_id;

    IF p_ends THEN
        COMMIT;
    END IF;
    SELECT reply;
END
