"use strict";
SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  displayRequestDuration: true,
  filter: true,
  persistAuthorization: false, // a token must not outlive the page
  showExtensions: true,
  validatorUrl: null, // nothing leaves this origin
});
