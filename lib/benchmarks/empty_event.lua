-- The events of spec_tree.lua without a server: everything is done but the sending.

sysbench.sql = {driver = function()
  return {connect = function()
    return {query = function() end, disconnect = function() end}
  end}
end}

dofile("/run/benchlab/load/spec_tree.lua")
