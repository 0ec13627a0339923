// Package openai calls models of OpenAI, and of the many servers that implement its API (MODEL-03).
//
// It speaks Chat Completions and not the newer Responses. Chat Completions is what servers behind a Model's baseURL
// have in common: vLLM, Ollama, llama.cpp, gateways, and other providers. It keeps nothing between calls, so that a
// Turn can be taken up again from its journal alone; Responses would gain its advantage, reasoning that is carried on,
// only where the provider keeps the conversation. OpenAI's own service is told not to store what it is asked.
package openai
