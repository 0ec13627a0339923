// Package openai calls models of OpenAI, and of the many servers that implement its APIs (MODEL-03).
//
// OpenAI's own service is called by Responses, where its current models reason and call tools at once. It is told to
// store nothing and to give its reasoning encrypted, so that a Turn can be taken up again from its journal alone. Other
// servers are called by Chat Completions, which they have in common: vLLM, Ollama, llama.cpp, gateways, and other
// providers. A Model can say which of the two.
package openai
