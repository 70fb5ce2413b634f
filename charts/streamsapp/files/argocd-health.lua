-- The health of a StreamsApp for Argo CD, which calls this with the object as `obj`.
-- docs/helm.md has the command that puts it into the ConfigMap argocd-cm. Conditions have kstatus' meaning.
local function health(status, message)
  return { status = status, message = message }
end

local status = obj.status or {}
local conditions = {}
for _, condition in ipairs(status.conditions or {}) do
  conditions[condition.type] = condition
end

local function holds(kind)
  return conditions[kind] ~= nil and conditions[kind].status == "True"
end

local function words(kind)
  local condition = conditions[kind]
  return condition.message ~= "" and condition.reason .. ": " .. condition.message or condition.reason
end

if conditions.Ready == nil then
  return health("Progressing", "no operator has looked at it yet")
end
if status.observedGeneration ~= obj.metadata.generation then
  return health("Progressing", "the operator has not looked at the last change yet")
end
if holds("Stalled") then
  return health(conditions.Stalled.reason == "Paused" and "Suspended" or "Degraded", words("Stalled"))
end
if holds("Reconciling") then
  return health("Progressing", words("Reconciling"))
end
if holds("Degraded") then
  return health("Degraded", words("Degraded"))
end
if conditions.Ready.reason == "Suspended" then
  return health("Suspended", words("Ready"))
end
return health(holds("Ready") and "Healthy" or "Progressing", words("Ready"))
