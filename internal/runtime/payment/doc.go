// Package payment pays for requests of tools, within limits (PAY-01). Models see nothing of it: no wallet, no offer, no
// payment and no tool that pays for any request.
//
// A request is sent without a payment first. If its server responds with status 402 and offers that the policy permits,
// one authorization is signed, and the request is sent once more with it. What an authorization allows is money that is
// gone as soon as it has left the process: only the chain knows whether it was used. So these hold.
//
//   - The amount is reserved, under optimistic lock, in two ledgers before anything is signed: that of the wallet,
//     which bounds a day, and that of the Session, which bounds a Turn and the Session.
//   - The ledger of the Session keeps the authorization itself, but for its signature. A call that is repeated, after a
//     crash for example, signs the same one again: the same bytes, with the same nonce, of which the contract accepts
//     each only once. A call never has a second authorization.
//   - A reservation is released only if the request with the payment was not sent. Whatever else happens, the whole
//     amount counts, also where no server confirms that it was paid.
//
// Amounts are integers of a millionth of a US dollar, which is the atomic unit of USDC.
package payment
