// Package servicepods finds the pods behind Services, for requests that the manager sends for Models, tools and
// MCPServers. What a namespace can forge does not count: neither EndpointSlices nor DNS nor the address of a Service
// are used. A pod is behind a Service if the Service selects it, and its address is the one that its kubelet reports.
package servicepods
