-- Asks Headgate about a request before HAProxy passes it on; see haproxy.cfg. Arguments: the address of the gateway's
-- ext-auth listener, and what happens when the gateway fails or does not answer in time: closed refuses with 503, open passes
-- every request on. HAProxy's own httpclient would repeat a failed check, and so count a request twice.

local timeout_seconds = 1

local fields = {
  -- RateLimit-Reset is in the time of this clock. HAProxy's own replies have no date.
  ["date"] = "txn.headgate_date",
  ["ratelimit-limit"] = "txn.headgate_limit",
  ["ratelimit-remaining"] = "txn.headgate_remaining",
  ["ratelimit-reset"] = "txn.headgate_reset",
}

-- Fields of the request that the gateway reads, and those of a refusal that the client gets. Origin and access-control-*: for
-- browsers, with cors.origins.
local asked = {
  "authorization", "traceparent", "x-request-id",
  "origin", "access-control-request-method", "access-control-request-headers",
}
local passed = {
  "retry-after", "www-authenticate", "access-control-allow-origin", "access-control-expose-headers", "vary",
}

local unavailable =
  '{"message":"Service Unavailable","errors":[{"errMsg":"The service is overloaded, please try again later."}]}'

-- All values of a field, which HAProxy counts from 0.
local function values(headers, name)
  local list = {}
  for i = 0, #(headers[name] or {}) do
    if headers[name] and headers[name][i] then table.insert(list, headers[name][i]) end
  end
  return list
end

local function question(txn)
  local sent = txn.http:req_get_headers()
  local forwarded_for = values(sent, "x-forwarded-for")
  table.insert(forwarded_for, txn.sf:src())
  local lines = {
    "GET /forward-auth HTTP/1.1",
    "host: headgate",
    "connection: close",
    "x-forwarded-for: " .. table.concat(forwarded_for, ", "),
    "x-forwarded-method: " .. txn.sf:method(),
    "x-forwarded-uri: " .. txn.sf:url(),
    -- With extAuth.secretsFile: "x-headgate-secret: …",
  }
  for _, name in ipairs(asked) do
    for _, value in ipairs(values(sent, name)) do table.insert(lines, name .. ": " .. value) end
  end
  -- The gateway refuses a request with a name that some servers take for another one, such as x_request_id.
  for name in pairs(sent) do
    if name:find("[^%w%-]") then
      for _, value in ipairs(values(sent, name)) do table.insert(lines, name .. ": " .. value) end
    end
  end
  return table.concat(lines, "\r\n") .. "\r\n\r\n"
end

-- Returns the fields of the answer by name, and its body; an empty table if there is no answer.
local function ask(txn, address)
  local host, port = address:match("^(.*):(%d+)$")
  local socket = core.tcp()
  socket:settimeout(timeout_seconds)
  if not socket:connect(host, tonumber(port)) or not socket:send(question(txn)) then return {} end
  local headers = {}
  local line = socket:receive("*l")
  while line and line ~= "" do
    local name, value = line:match("^([^:]+): *(.*)$")
    if name then headers[name:lower()] = value end
    line = socket:receive("*l")
  end
  local length = tonumber(headers["content-length"]) or 0
  local body = line and (length == 0 and "" or socket:receive(length))
  socket:close()
  if not body then return {} end
  return headers, body
end

local function refuse(txn, status, body, headers)
  local reply = txn:reply({ status = status, body = body })
  for _, name in ipairs(passed) do
    if headers[name] then reply:add_header(name, headers[name]) end
  end
  reply:add_header("content-type", headers["content-type"] or "application/json; charset=utf-8")
  reply:add_header("cache-control", "no-store")
  txn:done(reply)
end

core.register_action("headgate", { "http-req" }, function(txn, address, when_down)
  local headers, body = ask(txn, address)
  -- Every decision has this field, and a failure does not.
  local decided = tonumber(headers["x-headgate-status"])
  if decided == nil then
    if when_down ~= "open" then refuse(txn, 503, unavailable, {}) end
    return
  end
  for name, variable in pairs(fields) do
    if headers[name] then txn:set_var(variable, headers[name]) end
  end
  if decided ~= 200 then refuse(txn, decided, body, headers) end
end, 2)
