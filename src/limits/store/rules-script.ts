// The script that keeps what people have set at a gateway: rules, and whose counts were forgiven. It is apart from that of
// the counters, so that neither makes the other dearer. What is asked and answered is described in rules-call.ts.
//
// All of it is one hash with one version, so that all of it exists or none:
//
//   field      what it has
//   .version   rises with each write: an instant by the store's clock, but above every one that a gateway has seen
//   .origin    another text if the hash is another one
//   .rules     how many rules there are, those that have ended since it was counted too
//   .floor     what was removed or forgiven up to this version may be missing
//   r/<id>     a rule; n/<gateway>: a reload on trial was taken back; f/<kind>/<value>: somebody's counts were forgiven.
//              "<revision> <ends> <n or a> <text>": the text of a rule that was removed is empty; n: it was written once,
//              a: a gateway has told it again, because the store had lost it
//
// A revision is the version at which an entry was written, and stays with it: of two versions of an entry the one with the
// higher revision holds. `ends`: nobody needs it from then on, in milliseconds. A rule that has ended is one that was removed.
//
// The heartbeat says also which gateways are there, in a sorted set in the same slot:
//
//   present    "<id> <what a gateway says of itself>" -> when it was heard last
import { maxRules } from "../../core/rules.ts";

/** Rules that were removed, and forgivenesses: beyond, the oldest of them are forgotten. */
export const mostOthers = 20_000;
/** For so long it is known that a rule was removed or has ended. No rule lasts longer. */
export const removedForMs = 31 * 86_400_000;

/** Gateways that are listed, those that were heard last; and how long what one says of itself may be, in bytes. */
export const mostGateways = 100;
export const longestGateway = 1_000;

export const rulesScript = `
local entries, present = KEYS[1], KEYS[2]
local time = redis.call('TIME')
local clock = time[1] * 1000000 + time[2]
local mostRules, mostOthers = ${maxRules}, ${mostOthers}

local at = 0
local function text() at = at + 1 return ARGV[at] end
local function number() at = at + 1 return tonumber(ARGV[at]) end
local function written(value) return string.format('%.0f', value) end

local operation, proposed, known, now = text(), text(), number(), number()
-- By the earlier of two clocks, because one may be wrong.
now = math.min(now, math.floor(clock / 1000))

local meta = redis.call('HMGET', entries, '.origin', '.version', '.floor', '.rules')
local origin, version = meta[1] or '', tonumber(meta[2] or 0)
local floor, rules = tonumber(meta[3] or 0), tonumber(meta[4] or 0)

-- Answers what all gateways that are there say of themselves. One that says nothing leaves; without an id,
-- nothing is said or asked.
local function listPresent()
  local id, about, silence = text(), text(), number()
  if id == '' then return false end
  local mine = id .. ' ' .. about
  if about ~= '' then redis.call('ZADD', present, clock, mine) end
  redis.call('ZREMRANGEBYSCORE', present, '-inf', '(' .. written(clock - silence * 1000))
  -- Those that were heard later, because the clock was set back, are heard again or gone.
  redis.call('ZREMRANGEBYSCORE', present, '(' .. written(clock), '+inf')
  redis.call('ZREMRANGEBYRANK', present, 0, -1 - ${mostGateways})
  redis.call('PEXPIRE', present, silence)
  local listed = {}
  for _, text in ipairs(redis.call('ZRANGE', present, 0, -1)) do
    local isOutdated = text ~= mine and string.sub(text, 1, #id) == id
    if isOutdated or #text > ${longestGateway} then redis.call('ZREM', present, text)
    else listed[#listed + 1] = text end
  end
  return listed
end

-- Returns the revision of a value, its end and its text: 0, 0 and an empty text if it is none.
local function parse(value)
  local revision, ends, content = string.match(value or '', '^(%d+) (%d+) %l (.*)$')
  return tonumber(revision or 0), tonumber(ends or 0), content or ''
end

local function isRule(name, content) return content ~= '' and string.sub(name, 1, 2) == 'r/' end

local function put(name, revision, ends, mark, content)
  redis.call('HSET', entries, name, table.concat({written(revision), written(ends), mark, content}, ' '))
end

-- Counts the rules, drops what nobody needs any more, and the oldest of the others if there are too many.
local function sweep()
  local all, others = redis.call('HGETALL', entries), {}
  rules = 0
  for i = 1, #all, 2 do
    local name = all[i]
    local revision, ends, content = parse(all[i + 1])
    local isEnded = ends <= now
    if isRule(name, content) and not isEnded then rules = rules + 1
    elseif isRule(name, content) then
      put(name, revision, now + ${removedForMs}, 'a', '')
      others[#others + 1] = {name, revision}
    elseif string.sub(name, 1, 1) ~= '.' then
      if isEnded then redis.call('HDEL', entries, name) else others[#others + 1] = {name, revision} end
    end
  end
  -- A quarter more than must go, because the next time is not to come soon.
  local surplus = #others > mostOthers and #others - math.floor(mostOthers * 3 / 4) or 0
  if surplus > 0 then table.sort(others, function(a, b) return a[2] < b[2] or a[2] == b[2] and a[1] < b[1] end) end
  for i = 1, surplus do
    redis.call('HDEL', entries, others[i][1])
    floor = math.max(floor, others[i][2])
  end
  redis.call('HSET', entries, '.floor', written(floor), '.rules', written(rules))
end

local function isFull()
  if rules >= mostRules then sweep() end
  return rules >= mostRules
end

-- A mark n writes: with a revision what holds at a gateway alone, else what was expected has to be there. A mark a tells again.
-- Answers 1 and the revision if it is written, or something newer is there; 0 and the revision of the rule that is there, if
-- something else was expected; 2 if there are too many; 3 and the revision that the gateway must have seen: a message that
-- comes so late that the gateway has given up, and others have changed the rule since, changes nothing.
local function change(name, mark, revision, expected, ends, content)
  local before, endsBefore, contentBefore = parse(redis.call('HGET', entries, name))
  local wasRule = isRule(name, contentBefore)
  local there = wasRule and endsBefore > now and before or 0
  if mark == 'a' and before >= revision then return {1, before} end
  if mark == 'n' then
    -- Sent again, because the answer was lost, it is the same forgiveness, or one that a later one includes.
    if string.sub(name, 1, 2) == 'f/' and endsBefore >= ends then return {1, before} end
    if expected >= 0 and expected ~= there then return {0, there} end
    if string.sub(name, 1, 2) == 'r/' and content == '' and there + revision == 0 then return {0, 0} end
    if before > known then return {3, before} end
  end
  if isRule(name, content) and not wasRule and isFull() then return {2, 0} end
  version = math.max(clock, version + 1, known + 1, revision)
  if before >= revision then revision = version end
  put(name, revision, ends, mark, content)
  rules = rules + (isRule(name, content) and 1 or 0) - (wasRule and 1 or 0)
  return {1, revision}
end

local function write()
  local before, results = version, {}
  for i = 1, number() do
    local result = change(text(), text(), number(), number(), number(), text())
    results[2 * i - 1], results[2 * i] = written(result[1]), written(result[2])
  end
  if version == before then return results end
  if origin == '' then origin = proposed .. '/' .. written(clock) end
  redis.call('HSET', entries, '.origin', origin, '.version', written(version))
  redis.call('HSET', entries, '.floor', written(floor), '.rules', written(rules))
  if redis.call('HLEN', entries) - rules - 4 > mostOthers then sweep() end
  return results
end

-- A gateway that knows this version is told nothing. Others get all that is there, in pages.
local function read()
  local knownOrigin, knownVersion, cursor, most = text(), number(), text(), number()
  if cursor == '0' and knownOrigin == origin and knownVersion == version then return {'0'} end
  local found = redis.call('HSCAN', entries, cursor, 'COUNT', most)
  local page = {found[1]}
  for i = 1, #found[2] do page[i + 1] = found[2][i] end
  return page
end

local values = operation == 'write' and write() or read()
-- Whatever is wrong with the list of gateways, rules can be read and written.
local isListed, listed = false, false
if operation == 'read' then isListed, listed = pcall(listPresent) end
return {written(clock), origin, written(version), written(floor), values, isListed and listed}
`;
