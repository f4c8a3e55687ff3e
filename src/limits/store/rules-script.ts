// The script that keeps what people have set at a gateway: rules, and whose counts were forgiven. It is apart from that of
// the counters, so that neither makes the other dearer. What is asked and answered is described in rules-call.ts.
//
// The log is a hash and four sorted sets, all in one slot:
//
//   key        what it has
//   entries    name -> "<revision> <n or a> <text>": the text is empty if it was removed; n: it is new at its place in the
//              log, a: a gateway has told it again. And .origin, .last, .floor: see below
//   order      name -> its place in the log: an instant, but later than that of every entry before it
//   rules      name of a rule -> when it ends, in milliseconds
//   forgiven   name of a forgiveness -> when nobody needs it any more, in milliseconds
//   removed    name of a rule that was removed -> its place
//
// A revision is that of the content, and stays with it: of two versions the one with the higher revision holds. A place changes
// each time an entry is written, and is not before its revision. .origin is another
// text if the log is another one. Only removals behind the place .floor are still known.
//
// Beside the log, and by a call of its own, a sorted set in the same slot says which gateways are there:
//
//   present    "<id> <what a gateway says of itself>" -> when it was heard last
import { maxRules } from "../../core/rules.ts";

/** Rules that were removed, and forgivenesses: beyond, the oldest of them are forgotten. */
export const mostRemoved = 10_000;
export const mostForgiven = 10_000;

/** Gateways that are listed, those that were heard last; and how long what one says of itself may be, in bytes. */
export const mostGateways = 100;
export const longestGateway = 1_000;

export const rulesScript = `
local entries, order, rules, forgiven, removed = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local time = redis.call('TIME')
local clock = time[1] * 1000000 + time[2]
local mostRules, mostForgiven, mostRemoved, mostEnded = ${maxRules}, ${mostForgiven}, ${mostRemoved}, 100

local at = 0
local function text() at = at + 1 return ARGV[at] end
local function number() at = at + 1 return tonumber(ARGV[at]) end
local function written(value) return string.format('%.0f', value) end

-- Answers what all gateways that are there say of themselves. One that says nothing leaves.
local function listPresent(key)
  local id, about, silence = text(), text(), number()
  local mine = id .. ' ' .. about
  if about ~= '' then redis.call('ZADD', key, clock, mine) end
  redis.call('ZREMRANGEBYSCORE', key, '-inf', '(' .. written(clock - silence * 1000))
  -- Those that were heard later, because the clock was set back, are heard again or gone.
  redis.call('ZREMRANGEBYSCORE', key, '(' .. written(clock), '+inf')
  redis.call('ZREMRANGEBYRANK', key, 0, -1 - ${mostGateways})
  redis.call('PEXPIRE', key, silence)
  local present = {}
  for _, text in ipairs(redis.call('ZRANGE', key, 0, -1)) do
    local isOutdated = text ~= mine and string.sub(text, 1, #id) == id
    if isOutdated or #text > ${longestGateway} then redis.call('ZREM', key, text)
    else present[#present + 1] = text end
  end
  return present
end

local operation = text()
if operation == 'present' then return listPresent(KEYS[1]) end

local proposed, known, now = text(), number(), number()
-- By the earlier of two clocks, because one may be wrong.
now = math.min(now, math.floor(clock / 1000))

local meta = redis.call('HMGET', entries, '.origin', '.last', '.floor')
local held = redis.call('ZCARD', order)
local listed = redis.call('ZCARD', rules) + redis.call('ZCARD', forgiven) + redis.call('ZCARD', removed)
-- A server that is short of memory may have removed one of the keys.
if not meta[1] or listed ~= held or redis.call('HLEN', entries) ~= held + 3 then
  redis.call('DEL', entries, order, rules, forgiven, removed)
  meta = {proposed .. '/' .. written(clock), written(math.max(clock, known)), '0'}
  redis.call('HSET', entries, '.origin', meta[1], '.last', meta[2], '.floor', meta[3])
end
local origin, last, floor = meta[1], tonumber(meta[2]), tonumber(meta[3])

local function drop(set, names)
  if #names == 0 then return end
  redis.call('ZREM', set, unpack(names))
  redis.call('ZREM', order, unpack(names))
  redis.call('HDEL', entries, unpack(names))
end

local function endedIn(set)
  return redis.call('ZRANGEBYSCORE', set, '-inf', now, 'LIMIT', 0, mostEnded)
end

-- Returns the revision of what is under a name, and its text: nil if nothing is, empty if it was removed.
local function read(name)
  local value = redis.call('HGET', entries, name)
  if not value then return 0 end
  local revision, content = string.match(value, '^(%d+) %l (.*)$')
  return tonumber(revision), content
end

-- A revision of 0 is that of the new place.
local function write(set, name, revision, mark, content, score)
  last = math.max(clock, last + 1, known + 1, revision)
  if revision == 0 then revision = last end
  redis.call('HSET', entries, '.last', written(last), name, written(revision) .. ' ' .. mark .. ' ' .. content)
  redis.call('ZADD', order, written(last), name)
  if set == rules then redis.call('ZREM', removed, name) end
  if set == removed then redis.call('ZREM', rules, name) end
  redis.call('ZADD', set, set == removed and written(last) or score, name)
  return revision
end

-- A rule that has ended is one that was removed: a gateway that is cut off may have the one that it had replaced.
local function endRules()
  local ended = endedIn(rules)
  -- First, because if memory is full, a script may write what it likes only after it has freed something.
  if #ended > 0 then redis.call('ZREM', rules, unpack(ended)) end
  for i = 1, #ended do write(removed, ended[i], (read(ended[i])), 'n', '', 0) end
end

local function bound()
  local surplus = redis.call('ZCARD', removed) - mostRemoved
  if surplus > 0 then
    local oldest = redis.call('ZRANGE', removed, 0, surplus - 1)
    floor = tonumber(redis.call('ZSCORE', removed, oldest[#oldest]))
    redis.call('HSET', entries, '.floor', written(floor))
    drop(removed, oldest)
  end
  surplus = redis.call('ZCARD', forgiven) - mostForgiven
  if surplus > 0 then drop(forgiven, redis.call('ZRANGE', forgiven, 0, surplus - 1)) end
end

local function readPage()
  local after, most = number(), number()
  local found = redis.call('ZRANGEBYSCORE', order, '(' .. written(after), '+inf', 'LIMIT', 0, most, 'WITHSCORES')
  local names = {}
  for i = 1, #found, 2 do names[#names + 1] = found[i] end
  local page = {#names == most and 1 or 0}
  if #names == 0 then return page end
  local values = redis.call('HMGET', entries, unpack(names))
  for i = 1, #names do
    page[#page + 1] = names[i]
    page[#page + 1] = found[2 * i]
    page[#page + 1] = values[i] or ''
  end
  return page
end

-- The gateway says which revision it is to have: a message that comes so late that the gateway has given up, and others have
-- changed the rule since, changes nothing. Answers 1 and the revision; 0 and that of what is there, if something else was
-- expected; 2 if there are too many; 3 and the revision that it must be above.
local function change(isRemoval)
  local name, expected, revision = text(), number(), number()
  local before, content = read(name)
  local there = content and content ~= '' and before or 0
  if expected >= 0 and expected ~= there then return {0, there} end
  if isRemoval and there == 0 then return {0, 0} end
  if before >= revision then return {3, before} end
  if isRemoval then write(removed, name, revision, 'n', '', 0)
  else
    local new, ends = text(), text()
    if there == 0 and redis.call('ZCARD', rules) >= mostRules then return {2, 0} end
    write(rules, name, revision, 'n', new, ends)
  end
  return {1, revision}
end

-- Sent again, because the answer was lost, or late, it is the same forgiveness, or one that a later one includes.
local function forgive()
  local name, content, ends = text(), text(), text()
  local before = redis.call('ZSCORE', forgiven, name)
  if before and tonumber(before) >= tonumber(ends) then return {1, (read(name))} end
  return {1, write(forgiven, name, 0, 'n', content, ends)}
end

-- Of each entry: 1 if it is there now, or something newer; 2 if there are too many.
local function tellAgain()
  local results = {}
  for i = 1, number() do
    local kind, name, revision, content, ends = text(), text(), number(), text(), text()
    local before, there = read(name)
    results[i] = 1
    if before < revision then
      local isRule = kind == 'r' and content ~= ''
      if isRule and (not there or there == '') and redis.call('ZCARD', rules) >= mostRules then results[i] = 2
      else write(kind == 'f' and forgiven or isRule and rules or removed, name, revision, 'a', content, ends) end
    end
  end
  return results
end

endRules()
drop(forgiven, endedIn(forgiven))
local answer
if operation == 'read' then answer = readPage()
elseif operation == 'put' then answer = change(false)
elseif operation == 'remove' then answer = change(true)
elseif operation == 'forgive' then answer = forgive()
else answer = tellAgain() end
bound()
for i = 1, #answer do
  if type(answer[i]) == 'number' then answer[i] = written(answer[i]) end
end
return {written(clock), origin, written(floor), written(last), answer}
`;
