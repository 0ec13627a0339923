-- The health of a Budget, for Argo CD. One that is exhausted or paused is as its author wants it, and Suspended.
local health = { status = "Progressing", message = "Waiting for the manager." }
local status = obj.status
if status == nil or status.conditions == nil then
  return health
end
if status.observedGeneration ~= nil and status.observedGeneration ~= obj.metadata.generation then
  health.message = "Waiting for the manager to see this generation."
  return health
end
for _, condition in ipairs(status.conditions) do
  if condition.type == "Ready" then
    health.message = condition.message
    if condition.status ~= "True" then
      return { status = "Degraded", message = condition.message }
    end
    health.status = "Healthy"
  end
end
for _, condition in ipairs(status.conditions) do
  if (condition.type == "Exhausted" or condition.type == "Paused") and condition.status == "True" then
    return { status = "Suspended", message = condition.message }
  end
end
return health
