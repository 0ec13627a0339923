package v1alpha1

// Price is an amount of money, as a decimal that is not negative.
// +kubebuilder:validation:MaxLength=13
// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[1-9][0-9]{0,5})([.][0-9]{1,6})?$')",message="a price is a decimal such as '3' or '0.25': at most six digits before and six after the decimal point, without a sign."
type Price string

// ModelPrice is the provider's price of a model's tokens. All prices are in one currency, per million tokens.
type ModelPrice struct {
	// currency of the prices, the three capital letters of ISO 4217. Default: USD.
	// +optional
	// +kubebuilder:default=USD
	// +kubebuilder:validation:MaxLength=3
	// +kubebuilder:validation:Pattern=`^[A-Z]{3}$`
	Currency string `json:"currency,omitempty"`
	// inputPerMillionTokens is the price of a million tokens that the model reads, a decimal such as "3" or "0.25" with
	// at most six places: "0" for a model that costs nothing.
	// +required
	InputPerMillionTokens Price `json:"inputPerMillionTokens"`
	// outputPerMillionTokens is the price of a million tokens that the model writes, reasoning included, a decimal such
	// as "15" with at most six places.
	// +required
	OutputPerMillionTokens Price `json:"outputPerMillionTokens"`
	// cachedInputPerMillionTokens is the price of a million tokens that the provider reads from its prompt cache, a
	// decimal with at most six places. Default: inputPerMillionTokens.
	// +optional
	CachedInputPerMillionTokens Price `json:"cachedInputPerMillionTokens,omitempty"`
	// cacheWritePerMillionTokens is the price of a million tokens that the model reads and the provider writes to its
	// prompt cache, a decimal with at most six places. Default: inputPerMillionTokens. Providers Anthropic and OpenAI
	// count such tokens.
	// +optional
	CacheWritePerMillionTokens Price `json:"cacheWritePerMillionTokens,omitempty"`
}

// Cost is the cost of model calls in one currency.
type Cost struct {
	// currency of the amount, the three capital letters of ISO 4217.
	// +required
	// +kubebuilder:validation:MaxLength=3
	Currency string `json:"currency"`
	// amount is a decimal with up to twelve places. It is exact: tokens times price, never rounded.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Amount string `json:"amount"`
}
