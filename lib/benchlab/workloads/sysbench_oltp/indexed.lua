-- Loads the tables of sysbench's own OLTP scripts with the index there from the start; sysbench adds it to a
-- table that has its rows.

require("oltp_common")

local create = create_table

function create_table(driver, connection, number)
  local indexed = {}
  function indexed.query(_, statement)
    local keys = string.format("(id),\n  KEY k_%d (k)\n)", number)
    return connection:query((statement:gsub("%(id%)%s*%)", keys)))
  end
  function indexed.bulk_insert_init(_, statement) return connection:bulk_insert_init(statement) end
  function indexed.bulk_insert_next(_, row) return connection:bulk_insert_next(row) end
  function indexed.bulk_insert_done(_) return connection:bulk_insert_done() end
  sysbench.opt.create_secondary = false -- the only query is CREATE TABLE then
  create(driver, indexed, number)
end
