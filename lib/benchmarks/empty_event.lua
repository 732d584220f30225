-- The events of spec_tree.lua with everything done but the sending; connections are there, and idle.

local driver = sysbench.sql.driver

sysbench.sql.driver = function()
  return {connect = function()
    local connection = driver():connect()
    return {query = function() end, disconnect = function() connection:disconnect() end}
  end}
end

dofile("/run/benchlab/load/spec_tree.lua")
