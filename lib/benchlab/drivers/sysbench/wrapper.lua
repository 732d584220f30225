-- Runs another script, which BENCHLAB_SCRIPT names as sysbench would be given it.
--
-- Each thread first runs it, so that what its connection keeps for itself is warm when all of them
-- begin: until BENCHLAB_WARMUP_S seconds after the start of sysbench, and once at least. sysbench
-- measures nothing of that but counts the queries and errors; so each thread prints how many they were.
--
-- It runs until the file that BENCHLAB_STOP names is there: sysbench ends a thread whose event returns
-- true, and prints its totals as always. By a signal it would end without them.

local ffi = require("ffi")
ffi.cdef("uint64_t sb_counter_val(int thread_id, int type);")
ffi.cdef("int setenv(const char *name, const char *value, int overwrite);")

local script, stop = os.getenv("BENCHLAB_SCRIPT"), os.getenv("BENCHLAB_STOP")
local warmup_s = tonumber(os.getenv("BENCHLAB_WARMUP_S"))

-- One end for all threads, however long each takes to connect: sysbench gives up if one is not ready
-- 30 s after it created them. Each thread loads this script anew, the main thread before all others.
ffi.C.setenv("BENCHLAB_WARM_AT", tostring(os.time() + warmup_s), 0)
local warm_at = tonumber(os.getenv("BENCHLAB_WARM_AT"))

if script:match("^/") then dofile(script) else require(script) end

local init, run, looked = thread_init, event, 0

local function counted(thread, type)
  return tonumber(ffi.C.sb_counter_val(thread, type))
end

function thread_init(thread)
  if init then init(thread) end
  if warmup_s == 0 then return end
  repeat
    local ended, problem = pcall(run, thread)
    local ignored = type(problem) == "table" and problem.errcode == sysbench.error.RESTART_EVENT
    if not (ended or ignored) then error(problem, 0) end
  until os.time() > warm_at
  -- sb_counter.h: other, read, write, event, error, reconnect; in one piece, as the others print, too
  io.write(string.format("warmed up: %d/%d/%d queries (r/w/o), %d errors, %d reconnects\n",
    counted(thread, 1), counted(thread, 2), counted(thread, 0), counted(thread, 4), counted(thread, 5)))
end

function event(...)
  run(...)
  local now = os.time()
  if now == looked then return false end
  looked = now -- each thread looks once a second
  local found = io.open(stop)
  if not found then return false end
  found:close()
  ffi.C.sb_event_stop((...)) -- sysbench counts an event only if its thread goes on
  return true
end
