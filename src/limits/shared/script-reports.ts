// The part of the store's script that is about what gateways tell of units: what became of those that were granted, and how
// many they have admitted without the store. Uses the functions of script.ts above it.

export const reportsOfScript = `
-- Adds what a gateway has spent to what it has spent until the same instant.
local function merge(c, gateway, units, ends)
  local instant = string.format('%.0f', ends)
  local name = gateway .. '!' .. instant .. '/'
  local together = redis.call('ZRANGEBYSCORE', c.key, instant, instant, 'LIMIT', 0, mostMerged)
  for i = 1, #together do
    if string.sub(together[i], 1, #name) == name then
      redis.call('ZREM', c.key, together[i])
      return redis.call('ZADD', c.key, ends, name .. unitsOf(together[i]) + units)
    end
  end
  return redis.call('ZADD', c.key, ends, name .. units)
end

local function reportSliding(c, id, granted, spent, age)
  local old, new = id .. '/' .. granted, string.gsub(id, '~$', '') .. '/' .. spent
  local score = scoreOf(c, old)
  local ends = roundedUp(c, c.now - age + c.window)
  if score then
    change(c)
    ends = math.min(score, ends)
    if new ~= old or ends <= c.now or c.grain > 1 then
      redis.call('ZREM', c.key, old)
      c.units = c.units - granted
      if spent > 0 and ends > c.now then
        local added = c.grain > 1 and merge(c, gatewayOf(id), spent, ends) or redis.call('ZADD', c.key, ends, new)
        c.units = c.units + spent * added
      end
    elseif ends < score then redis.call('ZADD', c.key, ends, new) end
  elseif spent > 0 and new ~= old then
    score = scoreOf(c, new)
    if score and ends < score then
      change(c)
      if ends > c.now then redis.call('ZADD', c.key, ends, new)
      else
        redis.call('ZREM', c.key, new)
        c.units = c.units - spent
      end
    end
  end
end

local function reportCalendar(c, id, granted, spent)
  local old = id .. '/' .. granted
  if not scoreOf(c, old) then return end
  change(c)
  redis.call('ZREM', c.key, old)
  c.units = c.units - granted + spent
  spend(c, gatewayOf(id), spent)
end

local function reportConcurrency(c, id, granted, spent)
  local old, new = id .. '/' .. granted, id .. '/' .. spent
  local score = scoreOf(c, old)
  if score and spent < granted then
    change(c)
    redis.call('ZREM', c.key, old)
    c.units = c.units - granted
  end
  if spent == 0 then return end
  change(c)
  local ends = math.max(c.now + c.lease, score or 0, scoreOf(c, new) or 0)
  c.units = c.units + spent * redis.call('ZADD', c.key, ends, new)
end

local function readReports(c)
  for _ = 1, number() do
    local id, granted, spent, age = text(), number(), number(), math.max(0, number())
    spent = math.min(spent, granted)
    if c.kind == 's' then reportSliding(c, id, granted, spent, age)
    elseif c.kind == 'c' then reportCalendar(c, id, granted, spent)
    else reportConcurrency(c, id, granted, spent) end
  end
end

local function skipReports()
  local reports = number()
  at = at + 4 * reports
  if number() >= 0 then number() end
end

-- The units of a gateway that count, or enough of them.
local function unitsPresent(c, gateway, enough)
  local present = 0
  if c.kind == 'c' then
    present = tonumber(redis.call('ZSCORE', c.key, '=' .. gateway) or spentBase) - spentBase
  end
  local least, most = '(' .. string.format('%.0f', c.kind == 'c' and c.now or c.now + c.lease), '(' .. spentBase
  for page = 0, pages - 1 do
    local members = redis.call('ZREVRANGEBYSCORE', c.key, most, least, 'LIMIT', page * pageSize, pageSize)
    for i = 1, #members do
      if gatewayOf(members[i]) == gateway then present = present + unitsOf(members[i]) end
    end
    if present >= enough or #members < pageSize then break end
  end
  return present
end

local function readTold(c, id)
  local units = number()
  if units < 0 then return end
  local age = math.max(0, number())
  if c.kind == 'n' then return end
  local missing = units - unitsPresent(c, gatewayOf(id), units)
  if missing <= 0 then return end
  if c.kind == 'c' then
    change(c)
    spend(c, gatewayOf(id), missing)
    c.units = c.units + missing
  elseif c.now - age + c.window > c.now then
    change(c)
    local added = redis.call('ZADD', c.key, c.now - age + c.window, id .. '.told/' .. missing)
    c.units = c.units + added * missing
  end
end
`;
