-- Stock-Level (TPC-C 5.11, clause 2.8.2).
CREATE OR REPLACE PROCEDURE tpcc_stock_level(
    p_w_id integer, p_d_id integer, p_threshold integer, INOUT answer text
)
LANGUAGE plpgsql AS $$
DECLARE
    next_order integer;
BEGIN
    SELECT d_next_o_id INTO STRICT next_order FROM district
    WHERE d_w_id = p_w_id AND d_id = p_d_id;

    SELECT json_build_object('low_stock', count(DISTINCT s_i_id)) INTO answer
    FROM order_line, stock
    WHERE ol_w_id = p_w_id AND ol_d_id = p_d_id
        AND ol_o_id >= next_order - 20 AND ol_o_id < next_order
        AND s_w_id = p_w_id AND s_i_id = ol_i_id AND s_quantity < p_threshold;
END
$$
