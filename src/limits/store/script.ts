// The script that the store runs, in Lua: everything that gateways share is read and changed by it alone, so that a call
// is atomic. It runs on Redis 6.2 and later and on Valkey. What is asked and answered is described in script-call.ts, the
// order of arguments and numbers too.
//
// A call has three parts. First the script opens each counter: it drops what has expired, and counts what is reported and
// told. Then it judges the requests, first those that ask for one counter alone, then the others in their order: each is
// granted all of its units or none. Last, it grants units ahead of need, writes each counter, and answers.
//
// A counter is one sorted set, so that all of it exists or none:
//
//   member               score                what it means
//   expiry               -(instant)           the key expires then; later than everything else in it
//   clock                -(instant)           of the last change; the script's clock for this key never goes back behind it
//   units                -(number)            what counts now
//   <lease id>/<units>   instant              units that were granted, and the last instant at which they count (sliding
//                                             window, concurrency) or can be given back (calendar). One lease for all
//                                             units that a call was granted, or one for each request: see leaseIdOf. An
//                                             id with ~ at its end: of units that are held until they are reported
//   <id>.told/<units>    instant              the same, of units that a gateway had admitted without the store
//   <gateway>!<instant>/<units>  instant      units that a gateway has spent, of several leases (see below)
//   =<gateway>           4e15 + number        calendar: units that this gateway has spent in the period
//
// The first three are negative, so that they are always at ranks 0, 1 and 2. Instants are microseconds since 1970 by the
// store's clock, below 2^52. A score is exact below 2^53, and Redis writes an integer of a script without an exponent.
//
// Of a limit of 1,000 and more in a window that is much longer than a lease, leases would fill the memory: each request
// could leave one. So instants are rounded up there to the next thousandth of the window, and what a gateway has spent until
// the same instant becomes one member when it is reported.
//
// The list of gateways is a sorted set too: a gateway's id, and the instant at which it was seen last. With score 0 it has an
// origin: another text if the list is another one, so that each thread sees that the store has forgotten. The secret is a
// string.
// So is the mark of a counter that was forgiven: the place of the last forgiveness in the log of rules-script.ts. It stays
// longer than anything that was admitted before it.
//
// The first write of a call is a ZADD or a SET: if memory is full, Redis refuses those, and refuses nothing any more after
// a script has written. So a call is refused as a whole. A call that changes nothing writes nothing.
import { gatewayLength, heldForUs, heldRetryUs, returnUs, threadLength } from "./script-call.ts";

export const storeScript = `
local time = redis.call('TIME')
local clock = time[1] * 1000000 + time[2]
local spentBase = 4e15
local mostExpired, mostWalked, mostMerged, pages, pageSize = 1000, 200, 200, 10, 1000
local heldRetry, heldFor, threadEnd = ${heldRetryUs}, ${heldForUs}, ${gatewayLength + threadLength}

local answer, answers, at, keyAt, hasWritten = {clock}, 1, 0, 0, false
-- By their place in the call: counters, and the answers to other items.
local items, opened = {}, 0

local function text() at = at + 1 return ARGV[at] end
local function number() at = at + 1 return tonumber(ARGV[at]) end
local function put(value) answers = answers + 1 answer[answers] = value end
local function unitsOf(member) return tonumber(string.match(member, '/(%d+)$') or '0') end
local function gatewayOf(id) return string.sub(id, 1, 12) end

local function listGateways(key)
  local gateway, silence, age = text(), number(), number()
  redis.call('ZADD', key, clock - age, gateway)
  -- Those that were heard later, because the clock was set back, are heard again or gone.
  local later = redis.call('ZRANGEBYSCORE', key, '(' .. string.format('%.0f', clock), '+inf')
  for i = 1, #later do redis.call('ZADD', key, clock, later[i]) end
  redis.call('ZREMRANGEBYSCORE', key, '(0', '(' .. string.format('%.0f', clock - silence))
  local origin = redis.call('ZRANGEBYSCORE', key, 0, 0)[1]
  if not origin then
    origin = gateway .. '/' .. string.format('%.0f', clock)
    redis.call('ZADD', key, 0, origin)
  end
  redis.call('PEXPIRE', key, 3600000)
  hasWritten = true
  return {origin, redis.call('ZCARD', key) - 1}
end

local function readSecret(key)
  local proposed = text()
  local value = redis.call('GET', key)
  if not value then
    redis.call('SET', key, proposed)
    hasWritten = true
    value = proposed
  end
  return {value}
end

-- Reads what the key says of itself into the counter c. Returns false if the key is no sorted set: that is its own trouble,
-- and not that of the other keys of the call.
local function readHead(c)
  local head = redis.pcall('ZRANGE', c.key, 0, 3, 'WITHSCORES')
  if head.err and string.find(head.err, 'WRONGTYPE', 1, true) then return false end
  if head.err then redis.call('ZRANGE', c.key, 0, 3, 'WITHSCORES') end
  c.isNew = head[1] == nil
  if head[1] == 'expiry' and head[3] == 'clock' and head[5] == 'units' then
    c.expiry = -tonumber(head[2])
    c.now = math.max(clock, -tonumber(head[4]))
    c.first = tonumber(head[8])
    -- Nothing is there, so nothing counts.
    if c.first then c.units = -tonumber(head[6]) end
  elseif not c.isNew then
    -- Somebody else has changed the key: what is there is counted again.
    local all = redis.call('ZRANGE', c.key, 0, -1, 'WITHSCORES')
    for i = 1, #all, 2 do
      local score = tonumber(all[i + 1])
      if string.sub(all[i], 1, 1) == '=' then c.units = c.units + score - spentBase
      elseif score > 0 then
        c.units = c.units + unitsOf(all[i])
        c.first = c.first or score
      end
    end
    c.isChanged = true
    redis.call('ZADD', c.key, -c.now - 1, 'expiry', -c.now, 'clock', -c.units, 'units')
    hasWritten = true
  end
  return true
end

-- Must be called before the first write to the counter.
local function change(c)
  c.isChanged = true
  if hasWritten then return end
  hasWritten = true
  redis.call('ZADD', c.key, -math.max(c.expiry, c.now + 1), 'expiry', -c.now, 'clock', -c.units, 'units')
end

local function spend(c, gateway, units)
  if units <= 0 then return end
  local member = '=' .. gateway
  local before = tonumber(redis.call('ZSCORE', c.key, member) or spentBase)
  redis.call('ZADD', c.key, before + units, member)
end

-- The score of a lease that still counts, or nil.
local function scoreOf(c, member)
  local score = tonumber(redis.call('ZSCORE', c.key, member))
  if score and score > c.now then return score end
end

local function roundedUp(c, instant)
  if c.grain == 1 then return instant end
  return math.ceil(instant / c.grain) * c.grain
end

local function dropExpired(c)
  if not c.first or c.first > c.now then return end
  local expired = redis.call('ZRANGEBYSCORE', c.key, '(0', c.now, 'LIMIT', 0, mostExpired)
  change(c)
  redis.call('ZREMRANGEBYRANK', c.key, 3, 2 + #expired)
  local gateways = {}
  for i = 1, #expired do
    local units, gateway = unitsOf(expired[i]), gatewayOf(expired[i])
    if c.kind == 'c' then gateways[gateway] = (gateways[gateway] or 0) + units
    else c.units = c.units - units end
  end
  for gateway, units in pairs(gateways) do spend(c, gateway, units) end
end

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
  if number() >= 0 then
    at = at + 2
    keyAt = keyAt + 1
  end
end

-- The mark of the counter whose key was read last. Something else may be under it.
local function readMark()
  keyAt = keyAt + 1
  local value = redis.pcall('GET', KEYS[keyAt])
  return type(value) == 'string' and tonumber(value) or 0
end

-- The units of a gateway that count, or enough of them. Without those that the thread holds, which are not told either: it has
-- reported before what it holds no more. Another thread of the gateway may not have, so that what it held counts.
local function unitsPresent(c, id, enough)
  local present, gateway, thread = 0, gatewayOf(id), string.sub(id, 1, threadEnd)
  if c.kind == 'c' then
    present = tonumber(redis.call('ZSCORE', c.key, '=' .. gateway) or spentBase) - spentBase
  end
  local least, most = '(' .. string.format('%.0f', c.kind == 'c' and c.now or c.now + c.lease), '(' .. spentBase
  for page = 0, pages - 1 do
    local members = redis.call('ZREVRANGEBYSCORE', c.key, most, least, 'LIMIT', page * pageSize, pageSize)
    for i = 1, #members do
      local isHeld = string.find(members[i], '~/', 1, true) and string.sub(members[i], 1, threadEnd) == thread
      if gatewayOf(members[i]) == gateway and not isHeld then present = present + unitsOf(members[i]) end
    end
    if present >= enough or #members < pageSize then break end
  end
  return present
end

-- Returns whether what is told is void: the gateway does not know that the counter was forgiven.
local function readTold(c, id)
  local units = number()
  if units < 0 then return false end
  local age, known = math.max(0, number()), number()
  if readMark() > known then return true end
  if c.kind == 'n' then return end
  local missing = units - unitsPresent(c, id, units)
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

-- The key must stay until nothing in it counts. It stays a little longer, so that not each call has to say so. That of a
-- period stays as long as it is asked to, for a clock that was set forward and is set back.
local function keepUntil(c)
  local least, slack = c.ends + 1e6, 1e6 + math.floor((c.window + c.lease) / 8)
  if c.kind == 'c' then least, slack = c.untilEnd + c.keep, 0 end
  if c.expiry >= least then return false end
  c.expiry = least + slack
  return true
end

-- Adds a lease, with the id of leaseIdOf. If the call was made before, the lease may be there: then its units count already,
-- and are granted again.
local function lease(c, place, units)
  local id = c.id
  if place > 0 then id = (c.isHeld and string.sub(id, 1, -2) or id) .. '.' .. place .. (c.isHeld and '~' or '') end
  local added = redis.call('ZADD', c.key, 'GT', c.ends, id .. '/' .. units)
  hasWritten = true
  c.isGranted = true
  c.units = c.units + units * added
  -- The lease that was there ends later now.
  if added == 0 then c.isChanged = true end
end

-- Judges requests that ask for the same of several counters: as many as fit take their units of each, the others nothing of any.
-- Their arguments are read twice. Returns how many are granted, and how many there are.
local function judge(place)
  local count = number()
  local from, granted = at, count
  for _ = 1, number() do
    local c, units = items[number() + 1], number()
    granted = math.min(granted, math.floor(math.max(0, c.free - c.taken) / units))
  end
  at = from
  for _ = 1, number() do
    local c, units = items[number() + 1], number()
    c.taken = c.taken + granted * units
    for i = 0, c.isByRequest and granted - 1 or -1 do lease(c, c.asked + place + i, units) end
  end
  return granted, count
end

-- Units of requests whose status is not known yet: of the newest leases, those whose ids end with ~. Of older ones nobody
-- may know it any more.
local function unitsHeld(c)
  local least = '(' .. string.format('%.0f', math.max(0, c.now + c.window + c.lease - heldFor))
  local newest = redis.call('ZREVRANGEBYSCORE', c.key, '(' .. spentBase, least, 'LIMIT', 0, mostWalked)
  local held = 0
  for i = 1, #newest do
    if string.find(newest[i], '~/', 1, true) then held = held + unitsOf(newest[i]) end
  end
  return held
end

-- How long ago the newest units were granted that another thread may return, unless it has spent them; -1: there are none.
-- Those whose lease has just ended may be on their way.
local function newestOfOthers(c, thread)
  local least = '(' .. string.format('%.0f', math.max(0, c.now + c.window - ${returnUs}))
  local newest = redis.call('ZREVRANGEBYSCORE', c.key, '(' .. spentBase, least, 'WITHSCORES', 'LIMIT', 0, mostWalked)
  for i = 1, #newest, 2 do
    if string.sub(newest[i], 1, #thread) ~= thread then return math.max(0, c.now + c.lease + c.window - newest[i + 1]) end
  end
  return -1
end

-- After which time something no longer counts, and after which time a step is free. What has expired and is not dropped
-- yet is at the beginning: it goes with the next call.
local function putTimes(c)
  local free, step = c.limit - c.units, c.step
  local isRefused = free < step and step <= c.limit
  local latest = isRefused and c.isHeld and free + unitsHeld(c) >= step and heldRetry or math.huge
  if c.kind == 'c' then
    put(c.untilEnd - clock)
    put(free >= step and 0 or step > c.limit and -1 or math.min(latest, c.untilEnd - clock))
    return
  end
  if free >= step and not c.isChanged then
    local first = c.isGranted and math.min(c.first or c.ends, c.ends) or c.first
    put(first and first - clock or -1)
    put(0)
    return
  end
  -- Each of them frees one unit at least.
  local walked = isRefused and math.min(mostWalked, step - free) or 1
  local lowest = redis.call('ZRANGE', c.key, 3, 2 + walked, 'WITHSCORES')
  put(lowest[2] and math.max(1, lowest[2] - clock) or -1)
  if not isRefused then put(free >= step and 0 or -1) return end
  local fits = 1
  for i = 1, #lowest, 2 do
    fits = math.max(1, lowest[i + 1] - clock)
    free = free + unitsOf(lowest[i])
    if free >= step then break end
  end
  put(math.min(latest, fits))
end

-- Reads a counter, and judges the requests of one step each that ask for it alone. A capital letter: nothing is wanted ahead,
-- reported or told. The table has all fields at once, because a table that grows is made anew.
local function open(key, form)
  local letter = string.sub(form, 1, 1)
  local kind = string.lower(letter)
  local isPlain = kind ~= letter
  local c = {
    key = key, kind = kind, asked = tonumber(string.sub(form, 2)), limit = number(), lease = number(), id = text(), step = number(),
    window = 0, grain = 1, keep = 0, untilEnd = 0, ahead = 0, state = 1, free = 0, taken = 0, isHeld = false, isByRequest = false,
    isNew = false, isChanged = false, isGranted = false, now = clock, units = 0, expiry = 0, first = false, ends = 0,
  }
  c.isHeld = string.sub(c.id, -1) == '~'
  c.isByRequest = c.isHeld or kind == 'n'
  if kind == 's' then
    c.window = number()
    local thousandth = math.floor(c.window / 1000)
    if c.limit >= 1000 and thousandth > c.lease then c.grain = thousandth end
  end
  if kind == 'c' then c.keep, c.untilEnd = number(), number() end
  if not isPlain then c.ahead = number() end
  local isOver = kind == 'c' and clock >= c.untilEnd
  if isOver or not readHead(c) then
    c.state = isOver and 0 or 2
    if not isPlain then skipReports() end
    return c
  end
  dropExpired(c)
  if not isPlain then
    readReports(c)
    if readTold(c, c.id) then c.state = 3 end
  end
  c.free = math.max(0, c.limit - c.units)
  c.ends = roundedUp(c, c.now + c.lease + c.window)
  local granted = math.min(c.asked, math.floor(c.free / c.step))
  c.taken = granted * c.step
  for place = 0, c.isByRequest and granted - 1 or -1 do lease(c, place, c.step) end
  return c
end

-- Grants units ahead of need, writes what has changed, and answers.
local function close(c)
  put(c.state)
  if c.state == 0 or c.state == 2 then
    for i = 1, 6 do put((i == 3 or i == 4 or i == 5) and -1 or 0) end
    return
  end
  local granted = c.taken
  if not c.isByRequest then
    local ahead = math.max(0, math.min(c.ahead, math.floor(c.free / 4) - granted))
    granted = granted + ahead - ahead % c.step
    if granted > 0 then lease(c, 0, granted) end
  end
  if c.isGranted or c.isChanged then
    hasWritten = true
    if keepUntil(c) then
      redis.call('ZADD', c.key, -c.expiry, 'expiry', -c.now, 'clock', -c.units, 'units')
      redis.call('PEXPIRE', c.key, math.ceil((c.expiry - clock) / 1000))
    else redis.call('ZADD', c.key, -c.now, 'clock', -c.units, 'units') end
  end
  put(granted)
  put(math.max(0, c.limit - c.units))
  putTimes(c)
  put(c.limit - c.units < c.step and newestOfOthers(c, string.sub(c.id, 1, threadEnd)) or -1)
  put(c.isNew and 1 or 0)
end

while keyAt < #KEYS do
  keyAt = keyAt + 1
  opened = opened + 1
  local form, key = text(), KEYS[keyAt]
  if form == 'g' then items[opened] = listGateways(key)
  elseif form == 'v' then items[opened] = readSecret(key)
  elseif form == 'f' then
    local seq, keep = number(), number()
    -- The first time that a forgiveness is heard of, nothing that was counted before it counts any more.
    if readMark() < seq then
      redis.call('SET', KEYS[keyAt], string.format('%.0f', seq))
      redis.call('PEXPIRE', KEYS[keyAt], keep)
      hasWritten = true
      redis.pcall('ZREMRANGEBYRANK', key, 0, -1)
    end
    items[opened] = {1}
  else items[opened] = open(key, form) end
end
local place = 0
while at < #ARGV do
  local granted, count = judge(place)
  put(granted)
  place = place + count
end
for i = 1, opened do
  local item = items[i]
  if item.key then close(item)
  else for j = 1, #item do put(item[j]) end end
end
return answer
`;
