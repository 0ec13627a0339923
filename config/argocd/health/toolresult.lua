-- The health of a ToolResult, for Argo CD. Healthy once its Turn has accepted it, Degraded if it was refused.
local health = { status = "Progressing", message = "Waiting for the manager." }
if obj.status == nil or obj.status.conditions == nil then
  return health
end
for _, condition in ipairs(obj.status.conditions) do
  if condition.type == "Accepted" then
    health.message = condition.message
    if condition.status == "True" then
      health.status = "Healthy"
    elseif condition.status == "False" then
      health.status = "Degraded"
    end
  end
end
return health
