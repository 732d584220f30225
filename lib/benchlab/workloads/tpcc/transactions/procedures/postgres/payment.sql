-- Payment (TPC-C 5.11, clause 2.5.2).
CREATE OR REPLACE PROCEDURE tpcc_payment(
    p_w_id integer, p_d_id integer, p_c_w_id integer, p_c_d_id integer, p_h_amount numeric,
    p_c_id integer, p_c_last text, INOUT answer text
)
LANGUAGE plpgsql AS $$
DECLARE
    paid timestamp := date_trunc('second', timezone('utc', now()));
    named integer[];
    d district;
    c customer;
    w warehouse;
BEGIN
    UPDATE district SET d_ytd = d_ytd + p_h_amount WHERE d_w_id = p_w_id AND d_id = p_d_id
    RETURNING * INTO STRICT d;

    IF p_c_id IS NULL THEN
        named := ARRAY(
            SELECT c_id FROM customer
            WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_last = p_c_last
            ORDER BY c_first, c_id);
        p_c_id := named[(cardinality(named) + 1) / 2];
    END IF;

    UPDATE customer
    SET c_balance = c_balance - p_h_amount,
        c_ytd_payment = c_ytd_payment + p_h_amount,
        c_payment_cnt = c_payment_cnt + 1,
        c_data = CASE WHEN c_credit = 'BC' THEN left(
            concat_ws(' ', p_c_id, p_c_d_id, p_c_w_id, p_d_id, p_w_id,
                      p_h_amount::numeric(6, 2), c_data), 500)
            ELSE c_data END
    WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = p_c_id
    RETURNING * INTO STRICT c;

    UPDATE warehouse SET w_ytd = w_ytd + p_h_amount WHERE w_id = p_w_id
    RETURNING * INTO STRICT w;

    INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    VALUES (p_c_id, p_c_d_id, p_c_w_id, p_d_id, p_w_id, paid, p_h_amount,
            concat(w.w_name, '    ', d.d_name));

    answer := json_build_object(
        'warehouse', json_build_object('street_1', w.w_street_1, 'street_2', w.w_street_2,
            'city', w.w_city, 'state', w.w_state, 'zip', w.w_zip),
        'district', json_build_object('street_1', d.d_street_1, 'street_2', d.d_street_2,
            'city', d.d_city, 'state', d.d_state, 'zip', d.d_zip),
        'customer', json_build_object('street_1', c.c_street_1, 'street_2', c.c_street_2,
            'city', c.c_city, 'state', c.c_state, 'zip', c.c_zip),
        'c_id', c.c_id, 'c_first', c.c_first, 'c_middle', c.c_middle, 'c_last', c.c_last,
        'c_phone', c.c_phone, 'c_since', c.c_since, 'c_credit', c.c_credit,
        'c_credit_lim', c.c_credit_lim, 'c_discount', c.c_discount, 'c_balance', c.c_balance,
        'h_date', paid,
        'c_data', CASE WHEN c.c_credit = 'BC' THEN left(c.c_data, 200) END);
END
$$
