// Package openai calls models of OpenAI, and of the many servers that implement its APIs (MODEL-03).
//
// OpenAI's own service is called by Responses, where its current models reason and call tools at once. Requests ask
// it to store nothing and to return its reasoning encrypted, so that a Turn can continue from its journal alone. Other
// servers are called by Chat Completions, which they have in common: vLLM, Ollama, llama.cpp, gateways, and other
// providers. A Model can select one of the two.
package openai
