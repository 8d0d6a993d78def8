"""The layers between TCP and NATS: reassembled bytes in, the plaintext of the NATS stream out.

`decide` lists the known layers and decides which one begins, and each connection has a `stack` of those that
were found. Plain TCP has an empty stack. PROXY headers and the handshakes of proxies are removed, WebSocket
frames and S2 are decoded, and TLS is decrypted if its secrets are known.

To add a layer, write a file that defines a `layer.Layer`, and add it to `decide.LAYERS`:

1. `begins` (first bytes of the connection), `replaces` (in place of a frame, such as TLS after INFO) and
   `resumes` (in the middle of a stream) detect it. `decide` asks the layers in order. The first layer
   that is detected takes the bytes, and its plaintext is judged again, so that layers may be stacked.
2. `transforms` makes one `layer.Transform` for each direction that the layer changes. Both may share an
   object with what they learn from each other, such as a key; `resume` returns the bytes that waited for it.
3. Each transform counts its input in `LayerBytes`, and these counts must add up.

When another process continues a connection, the connection is pickled with its transforms, so they hold only
plain values. If the stack of a flow changes bytes, that process reads the flow packet by packet: it trusts no
summary of its bytes.
"""
