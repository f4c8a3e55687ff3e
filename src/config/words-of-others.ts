// Keys that nginx, HAProxy, Traefik, Envoy and Kong have, and which keys are meant by them here. Case, `-` and `_` are
// ignored. Words that are similar to a key need no entry, because they are found by their distance.
import type { WordsOfOthers } from "./definition.ts";

export const wordsForConfiguration: WordsOfOthers = [
  { words: "policy limit limits rateLimit rateLimits rateLimiting quotas", meant: ["policies"] },
  { words: "shadow dryRun enforce", meant: ["enforcement"] },
  { words: "threads nbthread workerProcesses workerThreads", meant: ["workers"] },
  { words: "zoneSize tableSize stickTable", meant: ["counters.memory"] },
];

export const wordsForStore: WordsOfOthers = [
  { words: "host port hostname address addr endpoint uri nodes server servers", meant: ["url", "cluster"] },
  { words: "sentinel master masterName sentinelMaster", meant: ["sentinels.name"] },
  { words: "clusterNodes clusterAddresses", meant: ["cluster"] },
  { words: "user login", meant: ["username"] },
  { words: "password pass auth secret credentials", meant: ["passwordFile"] },
  { words: "database db", meant: ["url"] },
  { words: "ssl", meant: ["tls"] },
  { words: "namespace keyPrefix", meant: ["prefix"] },
  { words: "timeout commandTimeout socketTimeout", meant: ["wait"] },
  { words: "failOpen failClosed faultTolerant failureMode failureModeDeny skipOnError", meant: ["onFailure"] },
  { words: "gateways instances", meant: ["replicas"] },
];

export const wordsForPluginCounters: WordsOfOthers = [
  {
    words: "store redis",
    meant: [],
    instead: "the plugin counts in its own process; a limit over several processes needs the gateway in front of them",
  },
  { words: "snapshot", meant: [], instead: "the plugin keeps no counters over a restart" },
];

export const wordsForPolicy: WordsOfOthers = [
  { words: "rate rateLimit rps rpm average burst tokenBucket second", meant: ["limit", "window"] },
  { words: "requests requestsPerUnit max maxTokens maxRequests quota", meant: ["limit"] },
  { words: "duration fillInterval windowSize timeWindow expire", meant: ["window"] },
  { words: "period unit interval", meant: ["window", "per"] },
  { words: "minute hour day month", meant: ["limit", "per"] },
  { words: "tz", meant: ["timezone"] },
  { words: "zone id", meant: ["name"] },
  { words: "maxConcurrent connections limitConn inFlight amount", meant: ["concurrency"] },
  { words: "by limitBy keys descriptors actions sourceCriterion keyGenerator", meant: ["key"] },
  { words: "path paths routes location prefix", meant: ["match.paths"] },
  { words: "method methods verbs", meant: ["match.methods"] },
  { words: "when rules if", meant: ["match"] },
  { words: "weight hitsAddend", meant: ["cost"] },
  { words: "status statuses", meant: ["charge.statuses"] },
  { words: "shadow shadowMode dryRun enforce enabled", meant: ["mode"] },
  { words: "allow allowList whitelist skip except", meant: ["exempt"] },
  { words: "tiers limits clients", meant: ["overrides"] },
  { words: "maxClients maxKeys", meant: [], instead: "counters.memory bounds the memory of all policies together" },
];

export const wordsForOverride: WordsOfOthers = [
  { words: "ip ips address cidr network host source remoteAddr", meant: ["client"] },
  { words: "user name consumer sub", meant: ["token", "subject"] },
  { words: "bearer digest sha256", meant: ["token"] },
  { words: "key apiKey value", meant: ["token", "header"] },
  { words: "max requests quota rate concurrency", meant: ["limit"] },
  {
    words: "window per timezone cost",
    meant: [],
    instead:
      "an override changes the limit alone; for another time, add a policy, and exempt these clients from this one",
  },
];
