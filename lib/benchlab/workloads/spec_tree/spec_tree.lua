-- The recursive query over the product tree: every event sends it once, with parameters drawn from a
-- file that is read before the clients begin.

sysbench.cmdline.options = {
  statement = {"File with the statement; :operator, :root and :at stand for its parameters"},
  hint = {"What the statement's :hint stands for, an index to leave alone, say", ""},
  parameters = {"File with an operator, a root's id and a time between tabs on every line"},
}

local function lines(path)
  local found = {}
  for line in io.lines(path) do found[#found + 1] = line end
  return found
end

local connection, statement, choices

function thread_init()
  connection = sysbench.sql.driver():connect()
  statement = table.concat(lines(sysbench.opt.statement), " "):gsub(":hint", sysbench.opt.hint)
  choices = lines(sysbench.opt.parameters)
end

function event()
  local line = choices[sysbench.rand.uniform(1, #choices)]
  local chosen = {}
  chosen.operator, chosen.root, chosen.at = line:match("^([^\t]+)\t([^\t]+)\t([^\t]+)$")
  connection:query((statement:gsub(":(%l+)", chosen)))
end

function thread_done()
  connection:disconnect()
end
