-- Runs another script, which BENCHLAB_SCRIPT names as sysbench would be given it, until the file that
-- BENCHLAB_STOP names is there: sysbench ends a thread whose event returns true, and prints its totals as
-- always. By a signal it would end without them.

local script, stop = os.getenv("BENCHLAB_SCRIPT"), os.getenv("BENCHLAB_STOP")

if script:match("^/") then dofile(script) else require(script) end

local run, looked = event, 0

function event(...)
  run(...)
  local now = os.time()
  if now == looked then return false end
  looked = now -- each thread looks once a second
  local found = io.open(stop)
  if found then found:close() end
  return found ~= nil
end
