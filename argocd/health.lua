-- Health of a FloatingIPPool and of a NodeDNSRecordSet for Argo CD: docs/recipes/gitops.md says where it goes.
if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "FLIPOP has not looked at this version of the object yet" }
end
-- A pool has the second one for its records, and the third only while its account cannot be used.
local counts = { Ready = true, RecordSetReady = true, ProviderReady = true }
-- These end by themselves.
local passing = { Assigning = true, MissingAddresses = true, InProgress = true, ProviderUnread = true, NodesUnread = true }
local ready, waits, fails, paused
for _, condition in ipairs(obj.status.conditions or {}) do
  local text = condition.type .. " " .. condition.reason .. ": " .. (condition.message or "")
  if condition.type == "Paused" and condition.status == "True" then
    paused = text
  elseif not counts[condition.type] or condition.reason == "Paused" then
    -- It says nothing of the health.
  elseif condition.status == "True" then
    ready = ready or (condition.type == "Ready" and text)
  elseif passing[condition.reason] then
    waits = waits or text
  else
    fails = fails or text
  end
end
if fails then
  return { status = "Degraded", message = fails }
elseif paused then
  return { status = "Suspended", message = paused }
elseif waits or not ready then
  return { status = "Progressing", message = waits or "FLIPOP has not said yet whether the object is ready" }
end
return { status = "Healthy", message = ready }
