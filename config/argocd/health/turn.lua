-- The health of a Turn, for Argo CD. A Turn that waits for client results or approvals is Suspended, because
-- nothing in the cluster can continue it. So is a Turn whose spec suspends it.
local health = { status = "Progressing", message = "Waiting for the manager." }
local status = obj.status
if status == nil or status.conditions == nil then
  return health
end
if status.observedGeneration ~= nil and status.observedGeneration ~= obj.metadata.generation then
  health.message = "Waiting for the manager to see this generation."
  return health
end
local conditions = {}
for _, condition in ipairs(status.conditions) do
  conditions[condition.type] = condition
end
local succeeded, finished = conditions["Succeeded"], conditions["Finished"]
if finished ~= nil and finished.status == "True" and succeeded ~= nil then
  if succeeded.status == "True" then
    return { status = "Healthy", message = succeeded.message }
  end
  if succeeded.status == "False" then
    return { status = "Degraded", message = succeeded.message }
  end
end
local waiting = conditions["WaitingForToolResults"]
if waiting ~= nil and waiting.status == "True" then
  return { status = "Suspended", message = waiting.message }
end
if succeeded ~= nil then
  health.message = succeeded.message
  if succeeded.reason == "Suspended" then
    health.status = "Suspended"
  end
end
return health
